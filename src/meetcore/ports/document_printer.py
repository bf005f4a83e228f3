"""Documents on pages, to keep or to print: their content in, a PDF out."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from attrs import field, frozen

__all__ = [
    "MAX_CHARACTERS",
    "Block",
    "Document",
    "DocumentPrinter",
    "Facts",
    "Heading",
    "Paragraph",
    "Points",
    "PrinterBusy",
    "PrintingFailed",
    "Quotation",
    "Table",
]

MAX_CHARACTERS = 1_000_000
"""The characters that a document may have: a transcript of some fifteen hours."""


class PrinterBusy(Exception):
    """Too many documents are being made, or one for this account is."""


class PrintingFailed(Exception):
    """The document was not made: it is too large, took too long, or the printer has a fault."""


@frozen
class Heading:
    """A heading of a part."""

    text: str


@frozen
class Paragraph:
    """A paragraph; a line break begins a new line. `lead` stands before it in another weight."""

    text: str
    lead: str = ""


@frozen
class Points:
    """A list: each item begins with a mark, its further lines beside the first."""

    items: Sequence[str]


@frozen
class Quotation:
    """What was said, set apart from the text; `lead` is its time."""

    text: str
    lead: str = ""


@frozen
class Facts:
    """Names with their values, one on each line."""

    pairs: Sequence[tuple[str, str]]


@frozen
class Table:
    """A table. Columns are as wide as `weights` says; those in `numeric` stand on the right.

    `total` is a last row that is set apart.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    weights: Sequence[int]
    numeric: Sequence[int] = ()
    total: Sequence[str] = ()


Block = Heading | Paragraph | Points | Quotation | Facts | Table


@frozen
class Document:
    """The content of a document in one language.

    `made_at` is written into the file, so that the same content gives the same bytes. `page_of` is a text
    with `{page}` and `{pages}`, for the foot of each page.
    """

    title: str
    language: str
    made_at: datetime
    page_of: str
    blocks: Sequence[Block] = field(repr=False)


class DocumentPrinter(Protocol):
    """Makes PDFs, a few at a time."""

    async def print_pdf(self, account_id: UUID, document: Document) -> bytes:
        """Make the PDF of a document.

        Args:
            account_id: whose document it is; one is made for an account at a time.
            document: the content.

        Raises:
            PrinterBusy: too many are being made; in a few seconds there is room.
            PrintingFailed: see the class.
        """
        ...
