"""Markup made by code: charts as SVG, and Markdown as HTML.

Colours of a chart come from the style sheet, so that they follow light and dark. The source of Markdown is a
model or a participant: each piece is escaped, and no link, image or HTML comes of it.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import count, groupby
from typing import Final

from attrs import frozen
from markupsafe import Markup, escape

_HEIGHT: Final = 220
"""In pixels; the width is the page's, so that positions across are in per cent."""
_TOP, _BOTTOM = 28, _HEIGHT - 26
"""The plot: above it are the titles of bars, below it their labels."""
_LABELS, _STEPS = 4, 5
"""How many bars have a label, and how many steps an axis has, at most."""


@frozen
class Bar:
    """One bar: its stacked parts from the bottom up, its title, its label on the axis, and where it leads."""

    parts: Sequence[int]
    title: str
    label: str = ""
    path: str = ""


def bar_chart(bars: Sequence[Bar], title: str, number: Callable[[int], str] = str) -> Markup:
    """Draw stacked bars over an axis in rounded steps that `number` writes; part n has the class `part-n`.

    The title of a bar shows while it is pointed at or focused. Of the labels some are shown, the last one is.
    """
    step = axis_step(max((sum(bar.parts) for bar in bars), default=0))
    steps = max((-(-sum(bar.parts) // step) for bar in bars), default=0) or 1
    scale = (_BOTTOM - _TOP) / (steps * step)
    slot, every = 100 / max(len(bars), 1), -(-len(bars) // _LABELS) or 1
    drawn = Markup("").join(
        _bar(bar, n * slot, slot, scale, is_labelled=(len(bars) - 1 - n) % every == 0)
        for n, bar in enumerate(bars)
    )
    return Markup(
        '<svg class="chart" role="group" aria-label="{title}" height="{height}">{lines}{bars}</svg>'
    ).format(title=title, height=_HEIGHT, lines=_axis(steps, step, scale, number), bars=drawn)


def axis_step(highest: int) -> int:
    """Return 1, 2 or 5 times a power of ten, of which few enough reach up to `highest`."""
    steps: Iterator[int] = (base * 10**tens for tens in count() for base in (1, 2, 5))
    return next(step for step in steps if step * _STEPS >= highest)


def _axis(steps: int, step: int, scale: float, number: Callable[[int], str]) -> Markup:
    line = Markup('<line class="grid" x2="100%" y1="{0:.1f}" y2="{0:.1f}"/>')
    text = Markup('<text class="step" x="-8" y="{:.1f}" aria-hidden="true">{}</text>')
    heights = ((n * step, _BOTTOM - n * step * scale) for n in range(steps + 1))
    return Markup("").join(line.format(y) + text.format(y, number(value)) for value, y in heights)


def _bar(bar: Bar, left: float, slot: float, scale: float, *, is_labelled: bool) -> Markup:
    bottom, middle = float(_BOTTOM), left + slot / 2
    drawn = [_rect("hit", left, _TOP, slot, _BOTTOM - _TOP)]
    for number, part in enumerate(bar.parts, 1):
        height = part * scale
        bottom -= height
        if part:
            drawn.append(_rect(f"part-{number}", left + slot * 0.15, bottom, slot * 0.7, height))
    side, at = ("start", left) if middle < 25 else ("end", left + slot) if middle > 75 else ("middle", middle)
    drawn.append(_text(f"tip {side}", at, _TOP - 16, bar.title))
    if is_labelled:
        drawn.append(_text("label", middle, _BOTTOM + 18, bar.label))
    form = _LINKED if bar.path else _UNLINKED
    return form.format(path=bar.path, title=bar.title, drawn=Markup("").join(drawn))


_LINKED: Final = Markup('<a class="slot" href="{path}" aria-label="{title}">{drawn}</a>')
_UNLINKED: Final = Markup('<g class="slot">{drawn}</g>')


def _rect(kind: str, x: float, y: float, width: float, height: float) -> Markup:
    form = Markup('<rect class="{}" x="{:.2f}%" y="{:.1f}" width="{:.2f}%" height="{:.1f}"/>')
    return form.format(kind, x, y, width, height)


def _text(kind: str, x: float, y: float, text: str) -> Markup:
    return Markup('<text class="{}" x="{:.2f}%" y="{}" aria-hidden="true">{}</text>').format(kind, x, y, text)


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
