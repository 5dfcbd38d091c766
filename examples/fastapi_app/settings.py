"""Where things are: from the environment, with defaults for trying it out."""

import os
from pathlib import Path
from typing import Final

# The originals and their thumbnails, a folder each. All processes of the server share it.
PHOTOS_FOLDER: Final = Path(os.environ.get("PHOTOS_FOLDER", "photos")).absolute()

# Who is told when thumbnails are ready. Here it is a route of this very app (routers/webhooks.py).
WEBHOOK_URL: Final = os.environ.get("WEBHOOK_URL", "http://127.0.0.1:8000/webhooks/thumbnails")

MAX_UPLOAD: Final = 20 * 1024 * 1024  # bytes
THUMBNAIL_SIZES: Final = (512, 256, 96)  # pixels of the longer side
