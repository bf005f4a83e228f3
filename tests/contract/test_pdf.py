"""Documents on paper: what they say, what they leave out, and what one document may take."""

import asyncio
import io
import json
import re
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from attrs import evolve
from pypdf import PdfReader

from meetcore.adapters.pdf import PdfPrinter
from meetcore.adapters.pdf import printer as pdf_printer
from meetcore.adapters.pdf.layout import lay_out
from meetcore.domain.records.documents import (
    MAX_CHARACTERS,
    Document,
    Facts,
    Heading,
    Paragraph,
    Points,
    Quotation,
    Table,
)
from meetcore.ports.runtime import DocumentPrinter, PrinterBusy, PrintingFailed
from tests.support.fakes import FakeDocumentPrinter

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


class HerePdfPrinter(PdfPrinter):
    """Lays out in this process."""

    async def _run(self, content: bytes) -> bytes:
        return lay_out(json.loads(content))


@pytest.fixture(params=[HerePdfPrinter, FakeDocumentPrinter])
def printer(request: pytest.FixtureRequest) -> DocumentPrinter:
    made: DocumentPrinter = request.param()
    return made


async def test_every_kind_of_block_is_printed(printer: DocumentPrinter) -> None:
    assert (await printer.print_pdf(_ACCOUNT, DOCUMENT)).startswith(b"%PDF-")
    for block in DOCUMENT.blocks:
        made = await printer.print_pdf(_ACCOUNT, evolve(DOCUMENT, blocks=[block]))
        assert made.startswith(b"%PDF-"), block


@pytest.mark.parametrize("printer", [PdfPrinter, FakeDocumentPrinter], indirect=True)
async def test_the_same_content_gives_the_same_bytes(printer: DocumentPrinter) -> None:
    made = await printer.print_pdf(_ACCOUNT, DOCUMENT)
    assert await printer.print_pdf(UUID(int=2), DOCUMENT) == made
    assert await printer.print_pdf(_ACCOUNT, evolve(DOCUMENT, title="Another")) != made


async def test_a_document_that_is_too_large_is_refused(printer: DocumentPrinter) -> None:
    large = evolve(DOCUMENT, blocks=[Paragraph("a" * MAX_CHARACTERS)])
    with pytest.raises(PrintingFailed):
        await printer.print_pdf(_ACCOUNT, large)


def text_of(pdf: bytes) -> str:
    return "\n".join(page.extract_text() for page in PdfReader(io.BytesIO(pdf)).pages)


async def test_a_document_says_what_it_holds() -> None:
    made = await PdfPrinter().print_pdf(uuid4(), DOCUMENT)
    text = text_of(made)
    for part in (
        DOCUMENT.title, "PT \u0106ontoh <b>Abadi</b>", "Per hari", "\N{MINUS SIGN}5.000", "Jumlah",
        "1:02 kata-kata", "baris satu\nbaris dua", "Budi", "Halaman 1 dari 1",
    ):  # fmt: skip
        assert part in text, part
    reader = PdfReader(io.BytesIO(made))
    assert reader.metadata is not None
    assert reader.metadata.title == DOCUMENT.title
    assert reader.trailer["/Root"]["/Lang"] == "id"  # type: ignore[index]


async def test_a_character_that_no_font_has_is_shown_as_such() -> None:
    made = await HerePdfPrinter().print_pdf(uuid4(), evolve(DOCUMENT, title="A \u65e5 B", blocks=[]))
    assert "A \N{REPLACEMENT CHARACTER} B" in text_of(made)


async def test_one_document_is_made_for_an_account_at_a_time() -> None:
    pdf, account_id = PdfPrinter(), uuid4()
    first = asyncio.create_task(pdf.print_pdf(account_id, DOCUMENT))
    await asyncio.sleep(0)
    with pytest.raises(PrinterBusy):
        await pdf.print_pdf(account_id, DOCUMENT)
    assert (await first).startswith(b"%PDF-")
    assert (await pdf.print_pdf(account_id, DOCUMENT)).startswith(b"%PDF-")


async def test_few_documents_are_waited_for() -> None:
    pdf = PdfPrinter()
    waiting = [asyncio.create_task(pdf.print_pdf(uuid4(), DOCUMENT)) for _ in range(pdf_printer.MAX_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(PrinterBusy):
        await pdf.print_pdf(uuid4(), DOCUMENT)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert (await pdf.print_pdf(uuid4(), DOCUMENT)).startswith(b"%PDF-"), "who gave up leaves room"


async def test_a_list_has_marks_and_its_lines_stand_beside_each_other() -> None:
    items = [f"butir {number}" for number in range(80)] + ["kata " * 60]
    made = await HerePdfPrinter().print_pdf(
        uuid4(), evolve(DOCUMENT, blocks=[Points(items), Paragraph("sesudah")])
    )
    pages = PdfReader(io.BytesIO(made)).pages
    lines = [line for page in pages for line in page.extract_text().splitlines()]
    assert [line for line in lines if "butir" in line] == [f"\N{BULLET} {item}" for item in items[:-1]]
    starts: dict[str, float] = {}

    def note_start(text: str, _: object, at: list[float], *__: object) -> None:
        starts.setdefault(text.strip()[:7], at[4])

    pages[-1].extract_text(visitor_text=note_start)
    assert starts["kata ka"] > starts["sesudah"]


async def test_what_takes_too_long_is_not_made() -> None:
    with pytest.raises(PrintingFailed):
        await PdfPrinter(within_s=0.001).print_pdf(uuid4(), DOCUMENT)


async def test_a_font_that_cannot_be_read_is_a_failure_that_quotes_nothing() -> None:
    with pytest.raises(PrintingFailed) as refusal:
        await PdfPrinter(["/nonexistent/font.ttf"]).print_pdf(uuid4(), DOCUMENT)
    assert "Rapat" not in str(refusal.value)


async def test_a_name_stands_on_the_page_of_what_it_said_and_headings_are_black_behind_tables() -> None:
    table = DOCUMENT.blocks[2]
    said = [Paragraph(f"kata {number}", f"{number}:00 Budi") for number in range(120)]
    made = await HerePdfPrinter().print_pdf(
        uuid4(), evolve(DOCUMENT, blocks=[table, Heading("Transkrip"), *said])
    )
    pages = [page.extract_text().splitlines() for page in PdfReader(io.BytesIO(made)).pages]
    assert len(pages) > 1
    for lines in pages:
        leads = [line for line in lines if line.endswith(":00 Budi")]
        assert leads
        for lead in leads:
            number = lead.partition(":")[0]
            assert f"kata {number}" in lines, lead
    content = PdfReader(io.BytesIO(made)).pages[0].get_contents()
    assert content is not None
    strokes = re.findall(rb"([\d.]+) G\b", content.get_data())
    grey = next(place for place, stroke in enumerate(strokes) if float(stroke) > 0.5)
    assert b"0" in strokes[grey:], "the lines of a table are grey, the outline of the heading behind it black"
