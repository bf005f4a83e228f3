"""Documents in blocks of content, for a printer."""

from collections.abc import Sequence
from datetime import datetime

from attrs import field, frozen

MAX_CHARACTERS = 1_000_000
"""The most characters of a document: a transcript of some fifteen hours."""


@frozen
class Heading:
    """A heading."""

    text: str


@frozen
class Paragraph:
    """A paragraph, with its line breaks, after a `lead` in another weight."""

    text: str
    lead: str = ""


@frozen
class Points:
    """A bulleted list; further lines of an item are indented."""

    items: Sequence[str]


@frozen
class Quotation:
    """A quotation, set apart from the text; `lead` is its time."""

    text: str
    lead: str = ""


@frozen
class Facts:
    """Names with their values, one pair on each line."""

    pairs: Sequence[tuple[str, str]]


@frozen
class Table:
    """A table with relative widths, right-aligned `numeric` columns, and a last row `total` set apart."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    weights: Sequence[int]
    numeric: Sequence[int] = ()
    total: Sequence[str] = ()


Block = Heading | Paragraph | Points | Quotation | Facts | Table


@frozen
class Document:
    """The content of a document in one language.

    The same content with the same `made_at`, which is written into the file, gives the same bytes. `page_of`
    is the footer, with `{page}` and `{pages}`.
    """

    title: str
    language: str
    made_at: datetime
    page_of: str
    blocks: Sequence[Block] = field(repr=False)
