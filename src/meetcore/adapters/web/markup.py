"""Markup made by code: charts as SVG, and Markdown as HTML.

Colours of a chart come from the style sheet, so that they follow light and dark. The source of Markdown is a
model or a participant: each piece is escaped, and no link, image or HTML comes of it.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from attrs import frozen
from markupsafe import Markup, escape

WIDTH: Final = 720
HEIGHT: Final = 180
_TOP, _BOTTOM = 8, 4


@frozen
class Bar:
    """One bar: its stacked parts from the bottom up, and its tooltip."""

    parts: Sequence[int]
    title: str


def bar_chart(bars: Sequence[Bar], title: str) -> Markup:
    """Draw stacked bars over a common base line; part n has the class `part-n`, the title is for readers."""
    highest = max((sum(bar.parts) for bar in bars), default=0) or 1
    slot = WIDTH / max(len(bars), 1)
    drawn = Markup("").join(_bar(bar, n * slot, slot, highest) for n, bar in enumerate(bars))
    base = Markup('<line class="base" x1="0" y1="{y}" x2="{w}" y2="{y}"/>').format(
        y=HEIGHT - _BOTTOM, w=WIDTH
    )
    return Markup(
        '<svg class="chart" role="img" viewBox="0 0 {w} {h}" preserveAspectRatio="none">'
        "<title>{title}</title>{bars}{base}</svg>"
    ).format(w=WIDTH, h=HEIGHT, title=title, bars=drawn, base=base)


def _bar(bar: Bar, left: float, slot: float, highest: int) -> Markup:
    scale = (HEIGHT - _TOP - _BOTTOM) / highest
    bottom, drawn = float(HEIGHT - _BOTTOM), []
    for number, part in enumerate(bar.parts, 1):
        height = part * scale
        bottom -= height
        if part:
            drawn.append(
                Markup(
                    '<rect class="part-{n}" x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}"/>'
                ).format(n=number, x=left + slot * 0.15, y=bottom, w=slot * 0.7, h=height)
            )
    return Markup("<g><title>{title}</title>{parts}</g>").format(
        title=bar.title, parts=Markup("").join(drawn)
    )


_HEADING: Final = re.compile(r"(#{1,6})\s+(.*)")
_ITEM: Final = re.compile(r"\s*(?:[-*+\N{BULLET}]|(\d{1,3})[.)])\s+(.*)")
_SPANS: Final = re.compile(r"\*\*([^*\n]+)\*\*|`([^`\n]+)`|(?<![\w*])\*([^*\s](?:[^*\n]*[^*\s])?)\*(?![\w*])")
_FIRST_LEVEL: Final = 3
"""The level of the page's headings that the first of a text has; its section has the one above."""
_LAST_LEVEL: Final = 6


@frozen
class _Line:
    """A line: `kind` is the block that it belongs to, `level` that of a heading."""

    kind: str
    text: str = ""
    level: int = 0


def render_markdown(text: str) -> Markup:
    """Render a text that may be Markdown."""
    lines = [_read(line) for line in text.splitlines()]
    return Markup("\n").join(_blocks(lines))


def _read(line: str) -> _Line:
    if not line.strip():
        return _Line("blank")
    if found := _HEADING.fullmatch(line.strip()):
        return _Line("heading", found[2].rstrip("# "), min(_FIRST_LEVEL - 1 + len(found[1]), _LAST_LEVEL))
    if found := _ITEM.fullmatch(line):
        return _Line("ul" if found[1] is None else "ol", found[2])
    return _Line("p", line.strip())


def _blocks(lines: Sequence[_Line]) -> Iterator[Markup]:
    for kind, group in groupby(lines, key=lambda line: line.kind):
        of_kind = list(group)
        if kind == "heading":
            for line in of_kind:
                yield Markup("<h{0}>{1}</h{0}>").format(line.level, _spans(line.text))
        elif kind in ("ul", "ol"):
            items = Markup("").join(Markup("<li>{}</li>").format(_spans(line.text)) for line in of_kind)
            yield Markup("<{0}>{1}</{0}>").format(kind, items)
        elif kind == "p":
            yield Markup("<p>{}</p>").format(Markup("<br>\n").join(_spans(line.text) for line in of_kind))


def _spans(text: str) -> Markup:
    parts, end = [], 0
    for found in _SPANS.finditer(text):
        bold, code, emphasis = found.groups()
        tag, inner = ("strong", bold) if bold else ("code", code) if code else ("em", emphasis)
        parts += [escape(text[end : found.start()]), Markup("<{0}>{1}</{0}>").format(tag, inner)]
        end = found.end()
    return Markup("").join([*parts, escape(text[end:])])


def mark_words(text: str, words: str) -> Markup:
    """Escape a text, with a `<mark>` around each place of the words, in any case; without words, none."""
    if not words:
        return escape(text)
    parts = re.split(f"({re.escape(words)})", text, flags=re.IGNORECASE)
    return Markup("").join(
        Markup("<mark>{}</mark>").format(part) if place % 2 else part for place, part in enumerate(parts)
    )
