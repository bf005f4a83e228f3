"""Line charts as SVG: a logarithmic axis of rows, a linear axis of a figure, one line for each operation."""

import math
from collections.abc import Mapping, Sequence
from html import escape

from attrs import frozen

__all__ = ["Chart", "draw"]

_WIDTH, _HEIGHT = 760, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 250, 46, 56
_COLOURS = ("#1f5fa8", "#b3471d", "#2b7a3d", "#7a3fa0", "#8a6d00", "#0f7c7c")

Points = Sequence[tuple[float, float]]


@frozen
class Chart:
    """What is drawn. `limit` is a dashed line across; `title` and the names of the axes are for readers."""

    title: str
    across: str
    up: str
    lines: Mapping[str, Points]
    limit: float | None = None
    limit_name: str = ""


def draw(chart: Chart) -> str:
    """Return the chart as an SVG document that reads on light and on dark pages."""
    every = [point for points in chart.lines.values() for point in points]
    highest = max([up for _, up in every] + ([chart.limit] if chart.limit else []))
    step = _step(highest)
    top = math.ceil(highest / step) * step
    first, last = math.log10(min(x for x, _ in every)), math.log10(max(x for x, _ in every))

    def place(x: float, y: float) -> tuple[float, float]:
        share = (math.log10(x) - first) / (last - first) if last > first else 0.5
        return (
            _LEFT + share * (_WIDTH - _LEFT - _RIGHT),
            _HEIGHT - _BOTTOM - y / top * (_HEIGHT - _TOP - _BOTTOM),
        )

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" role="img" font-family="sans-serif" font-size="12">',
        f"<title>{escape(chart.title)}</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        _text(_LEFT, 24, chart.title, size=15),
    ]
    for number in range(round(top / step) + 1):
        x, y = place(10**first, number * step)
        parts.append(_line(x, y, _WIDTH - _RIGHT, y, "#d9d9d9"))
        parts.append(_text(x - 8, y + 4, f"{number * step:g}", anchor="end"))
    for value in sorted({x for x, _ in every}):
        x, y = place(value, 0)
        parts.append(_text(x, y + 18, f"{value:,.0f}".replace(",", "\u202f"), anchor="middle"))
    parts.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 14, chart.across, anchor="middle"))
    parts.append(_text(_LEFT, _TOP - 8, chart.up, colour="#555555"))
    if chart.limit:
        x, y = place(10**first, chart.limit)
        parts.append(_line(x, y, _WIDTH - _RIGHT, y, "#c00000", dashed=True))
        parts.append(_text(_WIDTH - _RIGHT + 8, y + 4, chart.limit_name, colour="#c00000"))
    for number, (name, points) in enumerate(chart.lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        places = [place(x, y) for x, y in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        key_y = _HEIGHT - _BOTTOM - 18 * (len(chart.lines) - number)
        parts.append(_line(_WIDTH - _RIGHT + 12, key_y, _WIDTH - _RIGHT + 30, key_y, colour, width=2))
        parts.append(_text(_WIDTH - _RIGHT + 36, key_y + 4, name))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _step(highest: float) -> float:
    """A round step that divides the axis into five to ten."""
    rough = 10 ** math.floor(math.log10(highest / 5))
    return float(next(rough * factor for factor in (1, 2, 5, 10) if highest / (rough * factor) <= 8))


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", size: int = 12, colour: str = "#222222"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">'
        f"{escape(text)}</text>"
    )


def _line(
    x1: float, y1: float, x2: float, y2: float, colour: str, *, dashed: bool = False, width: int = 1
) -> str:
    dash = ' stroke-dasharray="6 4"' if dashed else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
        f'stroke-width="{width}"{dash}/>'
    )
