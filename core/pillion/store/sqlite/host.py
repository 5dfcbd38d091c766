"""The folder that the processes of one host share for one database."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile

from pillion.errors import ConfigurationError


def host_folder(path: str, namespace: str = "") -> str:
    """The folder that belongs to `namespace` in the database `path`, for files of this user's processes on this host.

    Made if missing. Raises `ConfigurationError` if the folder is not this user's alone.
    """
    named = f"{os.path.realpath(path)}\0{namespace}" if namespace else os.path.realpath(path)
    key = hashlib.blake2s(named.encode(errors="surrogateescape"), digest_size=6).hexdigest()
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if base and os.path.isdir(base) and os.access(base, os.W_OK):
        parent = os.path.join(base, "pillion")
    else:
        user = os.getuid() if hasattr(os, "getuid") else "user"
        parent = os.path.join(tempfile.gettempdir(), f"pillion-{user}")
    folder = os.path.join(parent, key)
    for name in (parent, folder):
        _make_private(name)
    return folder


def _make_private(folder: str) -> None:
    """Make `folder`, or check what is there without following a link."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise ConfigurationError(f"{folder} cannot be made ({error.strerror}); point TMPDIR elsewhere") from error
    found = os.lstat(folder)
    mine = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    private = os.name == "nt" or stat.S_IMODE(found.st_mode) & 0o077 == 0
    if not (stat.S_ISDIR(found.st_mode) and mine and private):
        raise ConfigurationError(
            f"{folder} is not a private folder of this user (mode 0700, no symlink); "
            "remove it, or point TMPDIR elsewhere"
        )
