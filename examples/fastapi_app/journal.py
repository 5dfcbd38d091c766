"""Who did what, and when: a line of JSON for each step, in one file that all processes append to."""

import json
import os
import time

from settings import PHOTOS_FOLDER

FILE = PHOTOS_FOLDER / "journal.jsonl"


def note(event: str, photo: str) -> None:
    """Append a line. A single small write with O_APPEND: lines of several processes do not mix."""
    line = json.dumps({"event": event, "photo": photo, "pid": os.getpid(), "at": time.time()}) + "\n"
    PHOTOS_FOLDER.mkdir(parents=True, exist_ok=True)
    file = os.open(FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)
