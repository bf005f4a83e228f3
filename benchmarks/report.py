"""A figure beside its floor, whether its goal is met, and the table of figures in docs/performance.md."""

import os
import platform
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from operator import ge, le
from pathlib import Path
from statistics import median
from typing import TypeVar

from attrs import frozen

__all__ = ["PAGE", "Result", "alternate", "medians", "save", "show"]

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
_BOUND = re.compile(r"(ratio|adds|CPU)?\s*([≥≤])\s*([\d.]+)")
_SIGNS = {"≥": ge, "≤": le}
_VERDICTS = {True: "yes", False: "**no**", None: ""}
T = TypeVar("T")


@frozen
class Result:
    """One line of the table.

    `goal` has bounds such as "ratio ≥ 0.6; CPU ≤ 1800 µs": on the ratio to the floor, on what is added to it,
    on the processor time of one request, or on our own figure where no subject is named.
    """

    name: str
    ours: float | None
    floor: float | None
    unit: str
    goal: str = ""
    cpu_us: float | None = None
    floor_cpu_us: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Our figure divided by the floor's."""
        return self.ours / self.floor if self.ours and self.floor else None

    @property
    def is_met(self) -> bool | None:
        """Whether every bound of the goal holds; `None` without a goal, or without a figure."""
        added = None if self.ours is None or self.floor is None else self.ours - self.floor
        figures = {"ratio": self.ratio, "adds": added, "CPU": self.cpu_us, "": self.ours}
        verdicts = []
        for subject, sign, number in _BOUND.findall(self.goal):
            figure = figures[subject]
            verdicts.append(None if figure is None else bool(_SIGNS[sign](figure, float(number))))
        return None if None in verdicts or not verdicts else all(verdicts)

    def cells(self) -> list[str]:
        """The line as texts, without its note."""
        cpu = "" if self.cpu_us is None else _text(self.cpu_us)
        if self.floor_cpu_us is not None:
            cpu += f" ({_text(self.floor_cpu_us)})"
        figures = [_text(each) for each in (self.ours, self.floor, self.ratio)]
        return [self.name, *figures, self.unit, cpu, self.goal, _VERDICTS[self.is_met]]


def _text(value: float | None) -> str:
    """A figure for readers: whole from a hundred on."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.2g}"


_HEAD = ["", "ours", "floor", "ratio", "unit", "CPU µs (floor)", "goal", "met"]


def show(results: Sequence[Result]) -> None:
    """Print the table, with the notes below it."""
    lines = [_HEAD, *(each.cells() for each in results)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(_HEAD))]
    for line in lines:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
    for each in results:
        if each.note:
            print(f"{each.name}: {each.note}")


def save(section: str, results: Sequence[Result], where: str, page: Path = PAGE) -> None:
    """Put the table of a run, which was on the server `where`, between the markers of its section."""
    text = page.read_text("utf-8")
    begin, end = f"<!-- measured: {section} -->\n", f"<!-- end of {section} -->"
    before, found, rest = text.partition(begin)
    if not found:
        raise SystemExit(f"{page.name} has no place for {section}")
    table = "\n".join(_table(section, results, where))
    page.write_text(f"{before}{begin}\n{table}\n\n{end}{rest.partition(end)[2]}", "utf-8")


def _table(section: str, results: Sequence[Result], where: str) -> Iterator[str]:
    command = "make bench" if section == "bench" else f"make bench ARGS=--{section}"
    yield f"`{command}`, {datetime.now(UTC):%Y-%m-%d}: {_machine()}, {where}."
    yield ""
    yield "| " + " | ".join(_HEAD) + " |"
    yield "|---|--:|--:|--:|---|--:|---|---|"
    yield from ("| " + " | ".join(each.cells()) + " |" for each in results)
    notes = [f"- {each.name}: {each.note}" for each in results if each.note]
    yield from ["", *notes] if notes else []


def _machine() -> str:
    """Processor, memory and versions; no names of hosts, no paths."""
    cpu = _first("/proc/cpuinfo", "model name") or platform.machine()
    memory_gb = round(int(_first("/proc/meminfo", "MemTotal").split()[0]) / 1024**2)
    return (
        f"{os.cpu_count()} cores of {cpu}, {memory_gb} GB of memory; Python {platform.python_version()}, "
        f"meetcore {version('meetcore')}"
    )


def _first(file: str, label: str) -> str:
    lines = (line.partition(":") for line in Path(file).read_text("utf-8").splitlines())
    return next((text.strip() for name, _, text in lines if name.strip() == label), "0")


def alternate(rounds: int, sides: Mapping[str, Callable[[], T]]) -> dict[str, list[T]]:
    """Let sides take turns, in the other order in every second round; return what each turn measured.

    What one turn leaves to be written or vacuumed falls into the next.
    """
    taken: dict[str, list[T]] = {name: [] for name in sides}
    for number in range(rounds):
        for name in sides if number % 2 == 0 else reversed(list(sides)):
            taken[name].append(sides[name]())
    return taken


def medians(taken: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The median of each side's turns."""
    return {name: median(each) for name, each in taken.items()}
