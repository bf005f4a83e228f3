"""The authorities that certificates of receivers are checked by, read again when their files change."""

import os
import ssl
from pathlib import Path
from time import monotonic

import structlog

from meetcore.adapters.tls import client_context

log = structlog.get_logger("meetcore.worker")

_LOOK_EVERY_S = 60.0
_LOOK_SOON_S = 5.0
"""The same while there are no authorities at all."""


class Trust:
    """The system's authorities and those of a file, in a context for connections.

    A file that cannot be read any more changes nothing: the authorities that were read before stay.

    Args:
        ca_file: additional authorities (PEM).
    """

    context: ssl.SSLContext
    has_authorities: bool = False

    def __init__(self, ca_file: str | None) -> None:
        self._ca_file = ca_file
        paths = ssl.get_default_verify_paths()
        self._directory = paths.capath
        self._files = [Path(file) for file in (ca_file, paths.cafile) if file]
        self._seen: list[tuple[int, ...] | None] = []
        self._look_at = 0.0

    def load(self) -> None:
        """Read the authorities.

        Raises:
            OSError: the file cannot be read, or holds no certificates.
        """
        seen = [_version(file) for file in self._files]
        context = client_context(self._ca_file)
        context.set_alpn_protocols(["http/1.1"])
        self.context, self._seen = context, seen
        self.has_authorities = holds_authorities(context, self._directory)
        self._look_at = monotonic() + (_LOOK_EVERY_S if self.has_authorities else _LOOK_SOON_S)

    def is_look_due(self) -> bool:
        """Return whether to call `look`; true once."""
        is_due = monotonic() >= self._look_at
        if is_due:
            self._look_at = monotonic() + (_LOOK_EVERY_S if self.has_authorities else _LOOK_SOON_S)
        return is_due

    def look(self) -> None:
        """Read the authorities again where a file has changed."""
        if [_version(file) for file in self._files] == self._seen and self.has_authorities:
            return
        try:
            self.load()
        except OSError as error:
            log.warning("authorities not read again", cause=str(error))
        else:
            log.info("authorities read again")


def holds_authorities(context: ssl.SSLContext, directory: str | None) -> bool:
    """Return whether a context trusts any authority: those of a directory are read as they are needed."""
    if context.cert_store_stats()["x509_ca"]:
        return True
    try:
        return directory is not None and any(name.endswith(".0") for name in os.listdir(directory))
    except OSError:
        return False


def _version(file: Path) -> tuple[int, ...] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
