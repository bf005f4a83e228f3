"""The `DocumentPrinter` that lays out each document in a child process: a crash there is contained.

The child gets one JSON document, no environment and no path, a low priority, and limits of memory and time.
It is killed when its time is over or its caller is cancelled.
"""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from uuid import UUID

import structlog
from attrs import asdict

from meetcore.domain.records.documents import MAX_CHARACTERS, Document
from meetcore.ports.runtime import PrinterBusy, PrintingFailed

CPU_S: Final = 60
"""CPU seconds for one document; `MAX_CHARACTERS` take less than half."""
WITHIN_S: Final = 90.0
"""Wall-clock seconds."""
MAX_MEMORY_BYTES: Final = 768 * 1024 * 1024
AT_ONCE: Final = 2
"""Concurrent processes."""
MAX_WAITING: Final = 8
"""Limit of documents in progress or waiting; further ones are refused."""

_START: Final = str(Path(__file__).with_name("__main__.py"))
# Needed to find the interpreter's libraries. Nothing else: the environment holds secrets.
_ENVIRONMENT: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")

log = structlog.get_logger("meetcore")


class PdfPrinter:
    """Prints A4 pages, each document in `within_s` seconds; `fonts` have characters that Noto Sans lacks."""

    def __init__(self, fonts: Sequence[str] = (), *, within_s: float = WITHIN_S) -> None:
        self._fonts = list(fonts)
        self._within_s = within_s
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._accounts: set[UUID] = set()

    async def print_pdf(self, account_id: UUID, document: Document) -> bytes:
        if account_id in self._accounts or len(self._accounts) >= MAX_WAITING:
            raise PrinterBusy("other documents are being made")
        content = self._encoded(document)
        self._accounts.add(account_id)
        try:
            async with self._slots:
                return await self._run(content)
        finally:
            self._accounts.discard(account_id)

    def _encoded(self, document: Document) -> bytes:
        blocks = [{"is": type(block).__name__.lower()} | asdict(block) for block in document.blocks]
        others = {"made_at": document.made_at.isoformat(), "fonts": self._fonts, "blocks": blocks}
        encoded = json.dumps(asdict(document, recurse=False) | others, ensure_ascii=False)
        if len(encoded) > MAX_CHARACTERS:
            raise PrintingFailed(f"the document has more than {MAX_CHARACTERS} characters")
        return encoded.encode("utf-8", "replace")

    async def _run(self, content: bytes) -> bytes:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", _START, str(CPU_S), str(MAX_MEMORY_BYTES),
            stdin=PIPE, stdout=PIPE, stderr=PIPE, env=_environment(), cwd="/", start_new_session=True,
        )  # fmt: skip
        try:
            async with asyncio.timeout(self._within_s):
                made, stderr = await process.communicate(content)
        except TimeoutError:
            raise PrintingFailed(f"not within {self._within_s:g} s") from None
        finally:
            await _end(process)
        if process.returncode != 0 or not made.startswith(b"%PDF-"):
            cause = stderr[-200:].decode("utf-8", "replace")
            log.warning("a document was not made", ended=process.returncode, cause=cause)
            raise PrintingFailed("the process ended without a document")
        return made


def _environment() -> dict[str, str]:
    return {name: value for name in _ENVIRONMENT if (value := os.environ.get(name)) is not None}


async def _end(process: Process) -> None:
    """Kill the child and drain its pipes."""
    if process.returncode is None:
        process.kill()
        await process.communicate()
