"""Who this process's worker is in the store: an id that is never reused, and its certificate."""

from __future__ import annotations

import logging
import secrets

from pillion.worker import certificate
from pillion.worker.certificate import Certificate

log = logging.getLogger("pillion")


class Identity:
    """One life of a worker. A dead one is buried; the process goes on under a new one."""

    def __init__(self, folder: str | None) -> None:
        self.id = "w" + secrets.token_hex(8)
        self.dead = False
        self.certificate: Certificate | None = None
        self.reason: str | None = None  # why there is no certificate
        if folder is None:
            self.reason = "switched off, or the store has no host folder"
        elif not certificate.supported():
            self.reason = "this platform has no such locks"
        else:
            try:
                self.certificate = Certificate.create(folder, self.id)
            except OSError as error:
                self.reason = f"no lock file could be made in {folder}: {error.strerror}"
                log.warning("siblings will need a full lease to notice a crash of this process: %s", self.reason)

    def withdraw(self) -> None:
        """The worker has left in order."""
        if self.certificate is not None:
            self.certificate.close()
            self.certificate = None
