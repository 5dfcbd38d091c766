"""Photos on disk: a folder each, with the original, the thumbnails, and what the webhook said.

A job may run twice: the first time its process is killed, and a sibling starts it again. So every file is written
beside its place and then renamed into it. Nobody ever sees half of one, and writing it twice changes nothing.
"""

import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from settings import PHOTOS_FOLDER


def new_photo(upload: BinaryIO) -> str:
    """Keep an upload; the new photo's id."""
    photo = uuid.uuid4().hex
    folder(photo).mkdir(parents=True)
    upload.seek(0)
    write(original(photo), lambda file: shutil.copyfileobj(upload, file))
    return photo


def folder(photo: str) -> Path:
    return PHOTOS_FOLDER / photo


def original(photo: str) -> Path:
    return folder(photo) / "original"


def thumbnail(photo: str, size: int) -> Path:
    return folder(photo) / f"{size}.webp"


def told(photo: str) -> Path:
    """There once the webhook has arrived."""
    return folder(photo) / "webhook.json"


def write(path: Path, fill: Callable[[BinaryIO], object]) -> None:
    """Write a file as a whole or not at all."""
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
    try:
        with part.open("wb") as file:
            fill(file)
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
