"""Line charts as SVG: a logarithmic axis of rows, a linear axis of a figure, one line for each operation."""

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from attrs import frozen

__all__ = ["Chart", "draw"]

_WIDTH, _HEIGHT = 760, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 250, 46, 56
_MARKS = 5
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


@frozen
class _Axes:
    """Where a point of the chart lies on the picture."""

    first: float
    last: float
    top: float
    step: float

    @classmethod
    def of(cls, chart: Chart) -> "_Axes":
        every = [point for points in chart.lines.values() for point in points]
        highest = max([up for _, up in every] + ([chart.limit] if chart.limit else []))
        step = _step(highest)
        across = [x for x, _ in every]
        return cls(min(across), max(across), math.ceil(highest / step) * step, step)

    def place(self, x: float, y: float) -> tuple[float, float]:
        span = math.log10(self.last / self.first)
        share = math.log10(x / self.first) / span if span else 0.5
        plot_width, plot_height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
        return _LEFT + share * plot_width, _HEIGHT - _BOTTOM - y / self.top * plot_height


def draw(chart: Chart) -> str:
    """Return the chart as an SVG document on a white ground."""
    axes = _Axes.of(chart)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" role="img" font-family="sans-serif" font-size="12">',
        f"<title>{escape(chart.title)}</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        _text(_LEFT, 24, chart.title, size=15),
        *_grid(chart, axes),
        *_limit(chart, axes),
    ]
    for number in range(len(chart.lines)):
        parts += _curve(chart, axes, number)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _grid(chart: Chart, axes: _Axes) -> Iterator[str]:
    for number in range(round(axes.top / axes.step) + 1):
        x, y = axes.place(axes.first, number * axes.step)
        yield _line(_LEFT, y, _WIDTH - _RIGHT, y, "#d9d9d9")
        yield _text(_LEFT - 8, y + 4, f"{number * axes.step:g}", anchor="end")
    for value in _marks(chart):
        x, y = axes.place(value, 0)
        yield _text(x, y + 18, f"{value:,.0f}".replace(",", "\u202f"), anchor="middle")
    yield _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 14, chart.across, anchor="middle")
    yield _text(_LEFT, _TOP - 8, chart.up, colour="#555555")


def _marks(chart: Chart) -> list[float]:
    """The values that the axis names: a few, well apart."""
    values = sorted({x for points in chart.lines.values() for x, _ in points})
    marks = values[:1]
    for value in values[1:]:
        if math.log10(value / marks[-1]) >= math.log10(values[-1] / values[0]) / _MARKS:
            marks.append(value)
    return marks


def _limit(chart: Chart, axes: _Axes) -> Iterator[str]:
    if chart.limit:
        _, y = axes.place(axes.first, chart.limit)
        yield _line(_LEFT, y, _WIDTH - _RIGHT, y, "#c00000", dashed=True)
        yield _text(_WIDTH - _RIGHT + 8, y + 4, chart.limit_name, colour="#c00000")


def _curve(chart: Chart, axes: _Axes, number: int) -> Iterator[str]:
    """One line with its points and its place in the key."""
    name, points = list(chart.lines.items())[number]
    colour = _COLOURS[number % len(_COLOURS)]
    places = [axes.place(x, y) for x, y in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
    yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places)
    key_y = _HEIGHT - _BOTTOM - 18 * (len(chart.lines) - number)
    yield _line(_WIDTH - _RIGHT + 12, key_y, _WIDTH - _RIGHT + 30, key_y, colour, width=2)
    yield _text(_WIDTH - _RIGHT + 36, key_y + 4, name)


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
