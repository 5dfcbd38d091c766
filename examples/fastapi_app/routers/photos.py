"""Photos come in, thumbnails go out."""

from typing import Annotated, BinaryIO
from uuid import UUID

from fastapi import APIRouter, Depends, HTTPException, UploadFile
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse
from PIL import Image
from pillion_fastapi import Enqueue, enqueue
from pydantic import BaseModel

import storage
from settings import MAX_UPLOAD, THUMBNAIL_SIZES
from tasks import make_thumbnails

router = APIRouter(prefix="/photos", tags=["photos"])


class Accepted(BaseModel):
    photo: str
    job: str


@router.post("", status_code=202)
async def upload(file: UploadFile, enqueue: Annotated[Enqueue, Depends(enqueue)]) -> Accepted:
    """Keep the photo, and leave the work to a job. Once this is answered, the job is stored and will run."""
    if file.size is None or file.size > MAX_UPLOAD:
        raise HTTPException(413, f"a photo may have {MAX_UPLOAD} bytes")
    if not await run_in_threadpool(is_picture, file.file):
        raise HTTPException(415, "this is no picture that can be read")
    photo = await run_in_threadpool(storage.new_photo, file.file)
    job = await enqueue(make_thumbnails, photo)
    return Accepted(photo=photo, job=job.id)


@router.get("/{photo}/{size}.webp")
def thumbnail(photo: UUID, size: int) -> FileResponse:
    path = storage.thumbnail(photo.hex, size)
    if size not in THUMBNAIL_SIZES or not path.exists():
        raise HTTPException(404, "not here, or not yet")
    return FileResponse(path, media_type="image/webp")


def is_picture(file: BinaryIO) -> bool:
    """Looks at the header only."""
    try:
        with Image.open(file):
            return True
    except (OSError, Image.DecompressionBombError):
        return False
