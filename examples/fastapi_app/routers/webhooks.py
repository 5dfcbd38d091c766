"""The other side of the webhook. It would be somebody else's service; here the app calls itself."""

from uuid import UUID

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel

import journal
import storage

router = APIRouter(prefix="/webhooks", tags=["webhooks"])


class ThumbnailsReady(BaseModel):
    photo: UUID
    sizes: list[int]


@router.post("/thumbnails", status_code=204)
def thumbnails_ready(ready: ThumbnailsReady) -> None:
    """A webhook may arrive twice, so receiving it twice has to be the same as once."""
    photo = ready.photo.hex
    if not storage.folder(photo).exists():
        raise HTTPException(404, "no such photo")
    storage.write(storage.told(photo), lambda file: file.write(ready.model_dump_json().encode()))
    journal.note("webhook", photo)
