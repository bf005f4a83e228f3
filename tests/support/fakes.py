"""In-memory fakes of mails, printing, files, notifications and a cipher; see also `note_fakes`."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from html import escape
from uuid import UUID

from attrs import asdict

from meetcore.domain.mails.contents import MailContent, kind_of
from meetcore.domain.mails.views import MailText, OutgoingMail
from meetcore.domain.notes.notes import Language
from meetcore.domain.notes.recordings import RecordingFile
from meetcore.domain.records.documents import MAX_CHARACTERS, Document
from meetcore.ports.mails import MailRefused
from meetcore.ports.recording_files import ByteRange, FileGone, FilesUnavailable, OpenFile, RangeUnsatisfiable
from meetcore.ports.runtime import CipherRefused, PrintingFailed

__all__ = [
    "FakeDocumentPrinter", "FakeMailTexts", "FakeMailer", "FakeNotifier", "FakeRecordingFiles",
    "PlainCipher",
]  # fmt: skip

_CHUNK_BYTES = 64 * 1024


class PlainCipher:
    """Prepends the context and checks it when opened."""

    @property
    def key_ids(self) -> tuple[bytes, ...]:
        return (self._lead("")[1:5],)

    def key_id_of(self, sealed: bytes) -> bytes | None:
        return sealed[1:5] if sealed.startswith(b"plain:") else None

    def seal(self, plain: bytes, context: str) -> bytes:
        return self._lead(context) + plain

    def open(self, sealed: bytes, context: str) -> bytes:
        lead = self._lead(context)
        if not sealed.startswith(lead):
            raise CipherRefused("sealed for another context")
        return sealed[len(lead) :]

    @staticmethod
    def _lead(context: str) -> bytes:
        # With its length: else a value that begins like the end of a context would open under a longer one.
        return f"plain:{len(context)}:{context}\n".encode()


class FakeDocumentPrinter:
    """Keeps documents."""

    def __init__(self) -> None:
        self.printed: list[tuple[UUID, Document]] = []

    async def print_pdf(self, account_id: UUID, document: Document) -> bytes:
        content = repr(asdict(document))
        if len(content) > MAX_CHARACTERS:
            raise PrintingFailed(f"the document has more than {MAX_CHARACTERS} characters")
        self.printed.append((account_id, document))
        return b"%PDF-" + content.encode()


class FakeMailTexts:
    """Lists the fields of a mail; the subject has the language."""

    def write(self, content: MailContent, language: Language) -> MailText:
        lines = []
        for name, value in asdict(content).items():
            lines.append(f"{name}: {' '.join(value) if isinstance(value, tuple) else value}")
        html = "".join(f"<p>{escape(line)}</p>" for line in lines)
        return MailText(f"{kind_of(content).value} ({language.value})", "\n".join(lines), html)


class FakeMailer:
    """Keeps the last `kept` mails."""

    def __init__(self, kept: int = 100) -> None:
        self._mails: deque[OutgoingMail] = deque(maxlen=kept)

    @property
    def mails(self) -> Sequence[OutgoingMail]:
        """Return the sent mails, newest first."""
        return tuple(reversed(self._mails))

    async def send(self, mail: OutgoingMail) -> None:
        if not (mail.recipient.isprintable() and mail.subject.isprintable()):
            raise MailRefused("header")
        self._mails.append(mail)


class FakeNotifier:
    """Counts notifications and passes each to `on_notify`."""

    def __init__(self, on_notify: Callable[[], None] | None = None) -> None:
        self._on_notify = on_notify
        self.notifications = 0

    def notify(self) -> None:
        self.notifications += 1
        if self._on_notify is not None:
            self._on_notify()


class FakeRecordingFiles:
    """Files provided by a test.

    Attributes:
        is_away: every call raises `FilesUnavailable`.
        breaks_after: bytes of a file before the read breaks; `None` for all.
        opened: ids of the opened files in order.
    """

    def __init__(self, provider: str = "memory") -> None:
        self._provider = provider
        self._files: dict[str, dict[str, RecordingFile]] = {}
        self._contents: dict[str, bytes] = {}
        self.is_unavailable = False
        self.breaks_after: int | None = None
        self.opened: list[str] = []

    @property
    def provider(self) -> str:
        return self._provider

    def put(self, provider_meeting_id: str, file: RecordingFile, content: bytes) -> None:
        self._files.setdefault(provider_meeting_id, {})[file.provider_file_id] = file
        self._contents[file.provider_file_id] = content

    async def find(
        self, provider_meeting_id: str, session_ids: Iterable[str] = ()
    ) -> tuple[RecordingFile, ...]:
        self._check()
        return tuple(self._files.get(provider_meeting_id, {}).values())

    @asynccontextmanager
    async def open(self, file: RecordingFile, wanted: ByteRange | None = None) -> AsyncIterator[OpenFile]:
        self._check()
        content = self._contents.get(file.provider_file_id)
        if content is None:
            raise FileGone("no such file")
        first = 0 if wanted is None else wanted.first
        if wanted is not None and first >= len(content):
            raise RangeUnsatisfiable(len(content))
        last = (
            len(content) - 1 if wanted is None or wanted.last is None else min(wanted.last, len(content) - 1)
        )
        self.opened.append(file.provider_file_id)
        yield OpenFile(len(content), first, last, self._chunks(content[first : last + 1]))

    async def remove(self, provider_meeting_id: str, file: RecordingFile) -> None:
        self._check()
        if self._files.get(provider_meeting_id, {}).pop(file.provider_file_id, None) is not None:
            del self._contents[file.provider_file_id]

    def _check(self) -> None:
        if self.is_unavailable:
            raise FilesUnavailable("the test says so")

    async def _chunks(self, content: bytes) -> AsyncIterator[bytes]:
        end = len(content) if self.breaks_after is None else min(self.breaks_after, len(content))
        for at in range(0, end, _CHUNK_BYTES):
            yield content[at : min(at + _CHUNK_BYTES, end)]
        if end < len(content):
            raise FilesUnavailable("the test says so")
