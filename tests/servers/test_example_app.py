"""The example app, as its README starts it."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from importlib.metadata import distribution
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from servers.harness import Server, Site, until

EXAMPLE = Path(__file__).parents[2] / "examples" / "fastapi_app"
SIZES = (512, 256, 96)

pytestmark = [pytest.mark.servers, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("example"))
    yield site
    site.close()


@pytest.fixture(scope="module")
def app(site: Site) -> Server:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = site.environment({})
    env["PHOTOS_FOLDER"] = str(site.folder / "photos")
    env["WEBHOOK_URL"] = f"http://127.0.0.1:{port}/webhooks/thumbnails"
    command = [sys.executable, "-m", "uvicorn", "main:app", "--app-dir", str(EXAMPLE), "--port", str(port)]
    server = Server(site, [*command, "--workers", "2"], env, port, 2)
    until(lambda: fleet(server) == 2, "both processes serve jobs", 40)
    return server


def fleet(server: Server) -> int:
    try:
        checks = server.get("/jobs/health").json()["checks"]
    except httpx.TransportError:
        return 0
    return sum(entry["alive"] for entry in checks["fleet"])


def photograph(distribution_name: str, path: str) -> Image.Image:
    return Image.open(str(distribution(distribution_name).locate_file(path)))


def jpeg(image: Image.Image, **more: Any) -> bytes:
    file = BytesIO()
    image.save(file, "JPEG", **more)
    return file.getvalue()


def upload(server: Server, data: bytes) -> dict[str, str]:
    answer = server.http.post("/photos", files={"file": ("photo.jpg", data)})
    assert answer.status_code == 202, answer.text
    accepted: dict[str, str] = answer.json()
    return accepted


def test_photos_become_thumbnails_and_the_webhook_tells_so(app: Server, site: Site) -> None:
    lion = photograph("ascii-magic", "ascii_magic/tests/lion.jpg").convert("RGB")
    hopper = photograph("textual-image", "textual_image/gracehopper.jpg").convert("RGB")
    lying = Image.Exif()
    lying[0x0112] = 6  # held upright: to be shown turned by a quarter
    photos = {
        "wide": (jpeg(lion), 800 / 600),
        "tall": (jpeg(hopper), 517 / 606),
        "turned": (jpeg(lion, exif=lying), 600 / 800),
        "crop": (jpeg(hopper.crop((20, 30, 420, 130)).resize((1200, 300))), 4 / 1),
    }
    accepted = {name: upload(app, data) for name, (data, _) in photos.items()}

    for name, (data, ratio) in photos.items():
        photo, job = accepted[name]["photo"], accepted[name]["job"]
        ended = app.get(f"/status/{job}", wait=20).json()
        assert (ended["state"], ended["attempts"], ended["error"]) == ("succeeded", 1, None), ended
        assert ended["thumbnails"] == [f"/photos/{photo}/{size}.webp" for size in SIZES]
        for size, path in zip(SIZES, ended["thumbnails"], strict=True):
            thumbnail = Image.open(BytesIO(app.get(path).content))
            assert thumbnail.format == "WEBP"
            assert max(thumbnail.size) == size
            width, height = thumbnail.size
            assert abs(width - height * ratio) <= max(1, ratio), (name, thumbnail.size)
        until(lambda job=job: app.get(f"/status/{job}").json()["webhook"] == "arrived", f"the webhook of {name}")
        folder = site.folder / "photos" / photo
        assert (folder / "original").read_bytes() == data
        assert sorted(path.name for path in folder.iterdir()) == sorted(
            ["original", "webhook.json", *(f"{size}.webp" for size in SIZES)]
        )

    health = app.get("/jobs/health")
    assert health.status_code == 200
    assert health.json()["status"] == "pass", health.json()["notes"]
    assert app.get("/jobs/health/ready", store=1).status_code == 200


def test_what_is_no_photo_is_refused_at_the_door(app: Server, site: Site) -> None:
    before = set(site.folder.glob("photos/*/original"))
    assert app.http.post("/photos", files={"file": ("photo.jpg", b"GIF89a, or not")}).status_code == 415
    assert app.get("/status/01h00000000000000000000000").status_code == 404
    assert app.get("/photos/00000000000000000000000000000000/512.webp").status_code == 404
    assert set(site.folder.glob("photos/*/original")) == before


def test_an_upload_whose_bytes_are_broken_fails_with_its_reason_and_no_thumbnail(app: Server, site: Site) -> None:
    whole = jpeg(photograph("ascii-magic", "ascii_magic/tests/lion.jpg"))
    accepted = upload(app, whole[: len(whole) // 2])
    job = accepted["job"]
    status = until(
        lambda: (now := app.get(f"/status/{job}").json())["error"] and now, "the first attempt has failed", 20
    )
    assert "truncated" in status["error"]
    assert status["state"] in ("scheduled", "queued", "running", "failed")
    assert status["thumbnails"] == []
    assert [path.name for path in (site.folder / "photos" / accepted["photo"]).iterdir()] == ["original"]
