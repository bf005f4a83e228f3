"""One figure beside its floor, and the table of such figures for a terminal."""

from statistics import median
from typing import Any

from attrs import field, frozen

__all__ = ["Result", "middle", "show"]


@frozen
class Result:
    """One line. `ratio` is service ÷ floor; `goal` is the target, for readers and for `goals.is_met`.

    The page and the table know of `extra`: `cpu_us_per_request`, `floor_cpu_us_per_request`, `note`, and
    `curve`, pairs of a number of rows and the figure at it.
    """

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
            "goal": self.goal,
        }
        return {key: _rounded(value) for key, value in (record | self.extra).items()}

    @classmethod
    def of(cls, record: dict[str, Any]) -> "Result":
        """The result that `record` wrote."""
        own = ("name", "ours", "floor", "ratio", "unit", "goal")
        extra = {name: value for name, value in record.items() if name not in own}
        return cls(
            record["name"], record["ours"], record["floor"], record["unit"], record.get("goal", ""), extra
        )


def middle(values: list[float]) -> float:
    return median(values)


def _rounded(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def as_text(value: float | None) -> str:
    """A figure for readers: whole from a hundred on."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def show(results: list[Result]) -> None:
    head = ("", "ours", "floor", "ratio", "unit", "CPU µs/request", "floor's", "goal")
    lines = [
        (
            each.name, as_text(each.service), as_text(each.floor), as_text(each.ratio), each.unit,
            as_text(each.extra.get("cpu_us_per_request")),
            as_text(each.extra.get("floor_cpu_us_per_request")), each.goal,
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
