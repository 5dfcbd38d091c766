"""A photo service: uploads are answered at once, thumbnails and webhooks are made by jobs in the same processes.

uvicorn main:app --workers 4
"""

from fastapi import FastAPI

from jobs import jobs
from routers import photos, status, webhooks

app = FastAPI(title="Photos", lifespan=jobs.lifespan)
app.include_router(photos.router)
app.include_router(status.router)
app.include_router(webhooks.router)
