"""Services of the process: time, holidays, randomness, encryption, notifying workers, printing; leases."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Protocol
from uuid import UUID

from attrs import field, frozen

from meetcore.domain.notes.due_words import Holidays
from meetcore.domain.records.documents import Document


class Clock(Protocol):
    """The wall clock."""

    def now(self) -> datetime:
        """Return the present instant, aware, in UTC."""

    def uptime(self) -> float:
        """Return seconds that only go forward, also while the machine is suspended, from any beginning."""


class HolidayCalendar(Protocol):
    """The public holidays of Indonesia."""

    async def holidays_from(self, day: date) -> Holidays:
        """Return the holidays of a day's year and the next."""


class Entropy(Protocol):
    """A source of random bytes fit for keys and secrets."""

    def token_bytes(self, count: int) -> bytes:
        """Return `count` unpredictable bytes."""


@frozen
class Lease:
    """An exclusive right to work, fenced by its token, for `seconds` of the store's clock."""

    token: UUID = field(repr=False)
    seconds: float


class CipherRefused(Exception):
    """A sealed value does not open: wrong key, wrong context, or changed bytes."""


class Cipher(Protocol):
    """Authenticated encryption, bound to the place of a value."""

    def seal(self, plain: bytes, context: str) -> bytes:
        """Encrypt under the first key. `context` names account and record, and is authenticated."""

    def open(self, sealed: bytes, context: str) -> bytes:
        """Decrypt under the key that sealed the value. Raises `CipherRefused`."""


class KeyedCipher(Cipher, Protocol):
    """A cipher of several keys. A sealed value has the id of its key in the bytes 2 to 5."""

    @property
    def key_ids(self) -> Sequence[bytes]:
        """The four-byte ids of the keys; the first one seals."""

    def key_id_of(self, sealed: bytes) -> bytes | None:
        """Return the id of a value's key, given or not; `None` for a value of another form."""


class WorkerNotifier(Protocol):
    """Wakes workers before their next poll. A notification may be lost, doubled or late; a sweep follows."""

    def notify(self) -> None:
        """Notify the workers that something is due; call it after the commit.

        Takes microseconds, never blocks and never raises. Calls in close succession may arrive as one.
        """


class PrinterBusy(Exception):
    """Too many documents are being made, or one for this account is; retry in a few seconds."""


class PrintingFailed(Exception):
    """The document is too large, took too long, or the printer has a fault."""


class DocumentPrinter(Protocol):
    """Makes PDFs, a few at a time."""

    async def print_pdf(self, account_id: UUID, document: Document) -> bytes:
        """Make a PDF, one at a time for an account. Raises `PrinterBusy` and `PrintingFailed`."""
