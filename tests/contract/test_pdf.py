"""Documents on paper: what they say, what they leave out, and what one document may take."""

import asyncio
import io
import re
from uuid import uuid4

import pytest
from attrs import evolve

from meetcore.adapters.memory.document_printer import MemoryDocumentPrinter
from meetcore.ports.document_printer import (
    DocumentPrinter,
    Heading,
    Paragraph,
    Points,
    PrinterBusy,
    PrintingFailed,
)
from meetcore.testing.contracts import DocumentPrinterContract
from meetcore.testing.contracts.document_printer import DOCUMENT

pytest.importorskip("fpdf", reason="the extra web is not installed")
from pypdf import PdfReader

from meetcore.adapters.pdf import PdfPrinter, printer


class TestPdfPrinter(DocumentPrinterContract):
    @pytest.fixture
    def printer(self) -> DocumentPrinter:
        return PdfPrinter()


class TestMemoryDocumentPrinter(DocumentPrinterContract):
    @pytest.fixture
    def printer(self) -> DocumentPrinter:
        return MemoryDocumentPrinter()


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
    made = await PdfPrinter().print_pdf(uuid4(), evolve(DOCUMENT, title="A \u65e5 B", blocks=[]))
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
    waiting = [asyncio.create_task(pdf.print_pdf(uuid4(), DOCUMENT)) for _ in range(printer.MAX_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(PrinterBusy):
        await pdf.print_pdf(uuid4(), DOCUMENT)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert (await pdf.print_pdf(uuid4(), DOCUMENT)).startswith(b"%PDF-"), "who gave up leaves room"


async def test_a_list_has_marks_and_its_lines_stand_beside_each_other() -> None:
    items = [f"butir {number}" for number in range(80)] + ["kata " * 60]
    made = await PdfPrinter().print_pdf(
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
    made = await PdfPrinter().print_pdf(
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
