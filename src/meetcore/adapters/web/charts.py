"""Charts as SVG, made on the server. Colours come from the style sheet, so that they follow light and dark.

A chart names what it shows in a title; the page puts the same figures into a table beside it.
"""

from collections.abc import Sequence
from typing import Final

from attrs import frozen
from markupsafe import Markup

WIDTH: Final = 720
HEIGHT: Final = 180
_TOP, _BOTTOM = 8, 4


@frozen
class Bar:
    """One bar: the parts that it is stacked of, from the bottom up, and what it says when pointed at."""

    parts: Sequence[int]
    title: str


def bar_chart(bars: Sequence[Bar], title: str) -> Markup:
    """Draw stacked bars over a common base line.

    Args:
        bars: with the same number of parts each; part n has the class `part-n`.
        title: what the chart shows, for readers of the screen.
    """
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
