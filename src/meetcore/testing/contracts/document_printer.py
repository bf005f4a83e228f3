"""Documents on pages: a PDF of every content, the same for the same, and none that is too large."""

from datetime import UTC, datetime
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.ports.document_printer import (
    MAX_CHARACTERS,
    Document,
    DocumentPrinter,
    Facts,
    Heading,
    Paragraph,
    PrintingFailed,
    Quotation,
    Table,
)

DOCUMENT = Document(
    "Rapat \N{LEFT DOUBLE QUOTATION MARK}Pagi\N{RIGHT DOUBLE QUOTATION MARK}",
    "id",
    datetime(2026, 12, 1, tzinfo=UTC),
    "Halaman {page} dari {pages}",
    [
        Facts([("Akun", "PT \u0106ontoh <b>Abadi</b>")]),
        Heading("Per hari"),
        Table(["Hari", "Kredit"], [["1 Nov", "\N{MINUS SIGN}5.000"]], (2, 1), (1,), ("Jumlah", "1")),
        Quotation("kata-kata", "1:02"),
        Paragraph("baris satu\nbaris\x00dua\u202e\ud800", "Budi"),
    ],
)
"""A block of each kind, with characters that no page shows."""

_ACCOUNT = UUID(int=1)


@pytest.mark.asyncio
class DocumentPrinterContract:
    """What `ports.document_printer.DocumentPrinter` promises.

    Give it the fixture `printer`, a `DocumentPrinter`.
    """

    async def test_every_kind_of_block_is_printed(self, printer: DocumentPrinter) -> None:
        assert (await printer.print_pdf(_ACCOUNT, DOCUMENT)).startswith(b"%PDF-")
        for block in DOCUMENT.blocks:
            made = await printer.print_pdf(_ACCOUNT, evolve(DOCUMENT, blocks=[block]))
            assert made.startswith(b"%PDF-"), block

    async def test_the_same_content_gives_the_same_bytes(self, printer: DocumentPrinter) -> None:
        made = await printer.print_pdf(_ACCOUNT, DOCUMENT)
        assert await printer.print_pdf(UUID(int=2), DOCUMENT) == made
        assert await printer.print_pdf(_ACCOUNT, evolve(DOCUMENT, title="Another")) != made

    async def test_a_document_that_is_too_large_is_refused(self, printer: DocumentPrinter) -> None:
        large = evolve(DOCUMENT, blocks=[Paragraph("a" * MAX_CHARACTERS)])
        with pytest.raises(PrintingFailed):
            await printer.print_pdf(_ACCOUNT, large)
