"""The table for people and `results.json` for scripts."""

import json
from pathlib import Path
from statistics import median
from typing import Any

from attrs import field, frozen

__all__ = ["RESULTS", "Result", "middle", "show", "write"]

RESULTS = Path(__file__).parent / "results.json"


@frozen
class Result:
    """One line. `ratio` is service ÷ floor; `goal` is the target, for readers."""

    name: str
    service: float | None
    floor: float | None
    unit: str
    goal: str = ""
    extra: dict[str, Any] = field(factory=dict)

    @property
    def ratio(self) -> float | None:
        return None if not self.service or not self.floor else self.service / self.floor

    def record(self) -> dict[str, Any]:
        record = {
            "name": self.name,
            "ours": self.service,
            "floor": self.floor,
            "ratio": self.ratio,
            "unit": self.unit,
        }
        return {key: _rounded(value) for key, value in (record | self.extra).items()}


def middle(values: list[float]) -> float:
    return median(values)


def _rounded(value: Any) -> Any:
    return round(value, 3) if isinstance(value, float) else value


def _text(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def show(results: list[Result]) -> None:
    head = ("", "ours", "floor", "ratio", "unit", "CPU µs/request", "floor's", "goal")
    lines = [
        (
            each.name, _text(each.service), _text(each.floor), _text(each.ratio), each.unit,
            _text(each.extra.get("cpu_us_per_request")), _text(each.extra.get("floor_cpu_us_per_request")),
            each.goal,
        )
        for each in results
    ]  # fmt: skip
    widths = [max(len(line[place]) for line in (head, *lines)) for place in range(len(head))]
    for line in (head, *lines):
        cells = [
            text.ljust(width) if place in (0, 4, 7) else text.rjust(width)
            for place, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())
    for each in results:
        if note := each.extra.get("note"):
            print(f"\n{each.name}: {note}")


def write(results: list[Result]) -> None:
    RESULTS.write_text(
        json.dumps([each.record() for each in results], indent=2, ensure_ascii=False) + "\n", "utf-8"
    )
