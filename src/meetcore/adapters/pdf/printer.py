"""The `DocumentPrinter` that lays out each document in a process: a fault there breaks nothing here.

The process gets one JSON document, no environment and no path, works at a low priority and under limits of
memory and time. It is killed when its time is over, or when nobody waits for it any more.

Owns the processes and how many there are. fpdf2 is never loaded here.
"""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from uuid import UUID

import structlog
from attrs import asdict

from meetcore.ports.document_printer import (
    MAX_CHARACTERS,
    Document,
    Facts,
    Heading,
    Paragraph,
    Points,
    PrinterBusy,
    PrintingFailed,
    Quotation,
    Table,
)

CPU_S: Final = 60
"""Seconds of computing for one document; one of `MAX_CHARACTERS` takes less than half of it."""
WITHIN_S: Final = 90.0
"""Seconds by the clock."""
MAX_MEMORY_BYTES: Final = 768 * 1024 * 1024
AT_ONCE: Final = 2
"""Processes at the same time."""
MAX_WAITING: Final = 8
"""Documents that are being made or wait for it; another one is refused."""

_START: Final = str(Path(__file__).with_name("__main__.py"))
_NAMES: Final[Mapping[type, str]] = {
    Heading: "heading", Paragraph: "paragraph", Points: "points", Quotation: "quotation", Facts: "facts",
    Table: "table",
}  # fmt: skip
# What the loader may need to find the interpreter's libraries. Nothing else: the environment holds secrets.
_ENVIRONMENT: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")

log = structlog.get_logger("meetcore")


class PdfPrinter:
    """Makes PDFs of A4 pages.

    Args:
        fonts: files of fonts for characters that Noto Sans lacks, in the order in which they are tried.
        within_s: seconds by the clock that one document may take.
    """

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
        blocks = [{"is": _NAMES[type(block)]} | asdict(block) for block in document.blocks]
        encoded = json.dumps(
            {
                "title": document.title,
                "language": document.language,
                "made_at": document.made_at.isoformat(),
                "page_of": document.page_of,
                "fonts": self._fonts,
                "blocks": blocks,
            },
            ensure_ascii=False,
        )
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
    """End the process, and read its pipes to their end."""
    if process.returncode is None:
        process.kill()
        await process.communicate()
