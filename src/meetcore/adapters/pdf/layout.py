"""Page layout: A4, headings, paragraphs, quotations, tables, page numbers.

The only module that imports fpdf2. The font is Noto Sans from `fontpkg-noto-sans` (Latin, Greek, Cyrillic,
Devanagari), followed by the operator's fonts. A character in none of them is shown as U+FFFD.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from fontpkg_noto_sans import ROOT
from fpdf import FPDF
from fpdf.enums import Align, TextMode, XPos, YPos
from fpdf.fonts import FontFace, TTFFont

MARGIN_MM: Final = 18
SIZE_PT: Final = 9.5
LINE_MM: Final = 4.8
_FONT: Final = "noto"
_MISSING: Final = "\N{REPLACEMENT CHARACTER}"
_SMALL_PT: Final = 8
_GREY: Final = 90
_RULE: Final = 190
_QUOTE_INDENT_MM: Final = 6
_POINT_INDENT_MM: Final = 4.5
_LABEL_MM: Final = 48
_BOLDER_MM: Final = 0.12  # outline that fakes bold: instantiating another weight takes 3 s


class Pages(FPDF):
    """A document with page numbers."""

    page_of = ""

    def printed(self, text: str) -> str:
        """Return text on one line, unprintable characters as spaces, missing ones as U+FFFD."""
        shapes = [font.cmap for font in self.fonts.values() if isinstance(font, TTFFont)]
        shown = "".join(
            (each if any(ord(each) in shape for shape in shapes) else _MISSING) if each.isprintable() else " "
            for each in text
        )
        return " ".join(shown.split())

    def footer(self) -> None:
        self.set_y(-14)
        self.set_font(_FONT, size=_SMALL_PT)
        self.set_text_color(_GREY)
        text = self.page_of.replace("{page}", str(self.page_no())).replace("{pages}", "{nb}")
        self.cell(0, 5, text, align=Align.R)
        self.set_text_color(0)


def lay_out(document: Mapping[str, Any]) -> bytes:
    """Lay out a document in the form that `printer` sends."""
    pages = Pages(format="A4")
    pages.page_of = document["page_of"]
    pages.set_margins(MARGIN_MM, MARGIN_MM, MARGIN_MM)
    pages.set_auto_page_break(True, MARGIN_MM + 4)
    _load_fonts(pages, document["fonts"])
    _describe(pages, document)
    pages.add_page()
    _write(pages, document["title"], size_pt=16, line_mm=8, is_bold=True)
    pages.ln(3)
    for block in document["blocks"]:
        _BLOCKS[block["is"]](pages, block)
    return bytes(pages.output())


def _describe(pages: Pages, document: Mapping[str, Any]) -> None:
    pages.set_title(pages.printed(document["title"]))
    pages.set_lang(document["language"])
    pages.set_creator("meetcore")
    pages.set_creation_date(datetime.fromisoformat(document["made_at"]))


def _load_fonts(pages: Pages, others: Iterable[str]) -> None:
    pages.add_font(_FONT, fname=ROOT / "files" / "NotoSans[wdth,wght].ttf")
    names = []
    for number, path in enumerate(others):
        names.append(f"other{number}")
        pages.add_font(names[-1], fname=path)
    if names:
        pages.set_fallback_fonts(names, exact_match=False)


def _keep_together(pages: Pages, room_mm: float) -> None:
    """Break the page if less room is left, so that no heading ends a page."""
    if pages.get_y() > pages.h - pages.b_margin - room_mm:
        pages.add_page()


def _heading(pages: Pages, block: Mapping[str, Any]) -> None:
    pages.ln(4)
    _keep_together(pages, 24)
    _write(pages, block["text"], size_pt=12, line_mm=6.5, is_bold=True)
    pages.ln(1)


def _paragraph(pages: Pages, block: Mapping[str, Any]) -> None:
    if block["lead"]:
        _keep_together(pages, 14)
        pages.set_text_color(_GREY)
        _write(pages, block["lead"], size_pt=_SMALL_PT, line_mm=4)
        pages.set_text_color(0)
    _write(pages, block["text"])
    pages.ln(1.5)


def _points(pages: Pages, block: Mapping[str, Any]) -> None:
    for item in block["items"]:
        _keep_together(pages, LINE_MM)
        pages.set_font(_FONT, size=SIZE_PT)
        pages.cell(_POINT_INDENT_MM, LINE_MM, "\N{BULLET}")
        pages.set_left_margin(MARGIN_MM + _POINT_INDENT_MM)
        _write(pages, item)
        pages.set_left_margin(MARGIN_MM)
        pages.set_x(MARGIN_MM)
    pages.ln(1.5)


def _quotation(pages: Pages, block: Mapping[str, Any]) -> None:
    pages.set_left_margin(MARGIN_MM + _QUOTE_INDENT_MM)
    pages.set_x(MARGIN_MM + _QUOTE_INDENT_MM)
    pages.set_text_color(_GREY)
    _write(pages, " ".join(part for part in (block["lead"], block["text"]) if part))
    pages.set_text_color(0)
    pages.set_left_margin(MARGIN_MM)
    pages.set_x(MARGIN_MM)
    pages.ln(2)


def _facts(pages: Pages, block: Mapping[str, Any]) -> None:
    for name, value in block["pairs"]:
        pages.set_font(_FONT, size=SIZE_PT)
        pages.set_text_color(_GREY)
        pages.multi_cell(
            _LABEL_MM, LINE_MM + 1, pages.printed(name), align=Align.L, new_x=XPos.RIGHT, new_y=YPos.TOP
        )
        pages.set_text_color(0)
        pages.multi_cell(
            0, LINE_MM + 1, pages.printed(value), align=Align.L, new_x=XPos.LMARGIN, new_y=YPos.NEXT
        )
    pages.ln(2)


def _table(pages: Pages, block: Mapping[str, Any]) -> None:
    numeric = set(block["numeric"])
    aligned = tuple(Align.R if place in numeric else Align.L for place in range(len(block["head"])))
    pages.set_font(_FONT, size=SIZE_PT)
    pages.set_draw_color(_RULE)
    pages.set_line_width(0.2)
    with pages.table(
        col_widths=tuple(block["weights"]),
        text_align=aligned,
        line_height=LINE_MM + 1,
        borders_layout="HORIZONTAL_LINES",
        headings_style=FontFace(emphasis=None, color=_GREY),
        padding=(0.6, 1.5),
    ) as table:
        for values in (block["head"], *block["rows"]):
            table.row([pages.printed(value) for value in values])
        if block["total"]:
            table.row([pages.printed(value) for value in block["total"]], style=FontFace(fill_color=235))
    pages.ln(3)


def _write(
    pages: Pages, text: str, *, size_pt: float = SIZE_PT, line_mm: float = LINE_MM, is_bold: bool = False
) -> None:
    pages.set_font(_FONT, size=size_pt)
    shown = "\n".join(pages.printed(line) for line in text.splitlines())
    with pages.local_context():
        if is_bold:
            pages.text_mode = TextMode.FILL_STROKE
            pages.set_draw_color(0)
            pages.set_line_width(_BOLDER_MM)
        pages.multi_cell(0, line_mm, shown, align=Align.L, new_x=XPos.LMARGIN, new_y=YPos.NEXT)


_BLOCKS = {
    "heading": _heading,
    "paragraph": _paragraph,
    "points": _points,
    "quotation": _quotation,
    "facts": _facts,
    "table": _table,
}
