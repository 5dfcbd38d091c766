"""What is done in the background."""

from dataclasses import dataclass
from functools import partial

import httpx
from fastapi import Depends
from PIL import Image, ImageOps

import journal
import storage
from jobs import http, jobs
from settings import THUMBNAIL_SIZES, WEBHOOK_URL


@dataclass
class Thumbnails:
    """What `make_thumbnails` returns, and `await job.result()` gives back."""

    photo: str
    sizes: list[int]
    webhook_job: str


@jobs.task(timeout=60)
def make_thumbnails(photo: str) -> Thumbnails:
    """A `def` task: it computes, so it runs on a thread. It is given the id of the photo, never the bytes."""
    journal.note("started", photo)
    with Image.open(storage.original(photo)) as file:
        image = ImageOps.exif_transpose(file).convert("RGB")
    for size in THUMBNAIL_SIZES:
        image.thumbnail((size, size))  # the largest first, so each is made from the one before
        storage.write(storage.thumbnail(photo, size), partial(image.save, format="WEBP", quality=80))
    # While one of these waits, there is no second one for the same photo.
    webhook = send_webhook.options(unique_key=f"webhook:{photo}").enqueue_sync(photo)
    journal.note("finished", photo)
    return Thumbnails(photo, list(THUMBNAIL_SIZES), webhook.id)


@jobs.task(max_attempts=5, timeout=30)
async def send_webhook(photo: str, client: httpx.AsyncClient = Depends(http)) -> int:
    """An `async def` task: it waits for others. If it raises, it is tried again, later each time."""
    response = await client.post(WEBHOOK_URL, json={"photo": photo, "sizes": THUMBNAIL_SIZES})
    response.raise_for_status()
    return response.status_code
