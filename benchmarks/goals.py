"""Goals as readers write them ("ratio ≥ 0.4; ≤ 220 µs"), and whether a result meets them.

A bound belongs to the ratio, to what we add to the floor ("adds ≤ 3 ms"), to the processor time of a request
where it is in µs and the result is not, and else to our own figure. What "aim" says is for readers.
"""

import re
from collections.abc import Iterator
from operator import ge, gt, le, lt

from benchmarks.report import Result

__all__ = ["is_met"]

_BOUND = re.compile(
    r"(?P<subject>ratio|adds|aim)?\s*(?P<sign>[≥≤<>])?\s*(?P<number>\d+(?:[\s\u00a0\u202f,]\d{3})*(?:\.\d+)?)"
    r"\s*(?P<unit>[^\s;,]*)"
)
_SIGNS = {"≥": ge, "≤": le, "<": lt, ">": gt}


def is_met(result: Result) -> bool | None:
    """Whether every bound of its goal holds; `None` where it has none, or a figure is missing."""
    verdicts = list(_verdicts(result))
    if not verdicts or None in verdicts:
        return None
    return all(verdicts)


def _verdicts(result: Result) -> Iterator[bool | None]:
    for bound in _BOUND.finditer(result.goal):
        if bound["sign"] is None or bound["subject"] == "aim":
            continue
        figure = _figure(result, bound["subject"], bound["unit"])
        limit = float(re.sub(r"[\s\u00a0\u202f,]", "", bound["number"]))
        yield None if figure is None else _SIGNS[bound["sign"]](figure, limit)


def _figure(result: Result, subject: str | None, unit: str) -> float | None:
    if subject == "ratio":
        return result.ratio
    if subject == "adds":
        return None if result.service is None or result.floor is None else result.service - result.floor
    if unit.startswith("µs") and "µs" not in result.unit:
        cpu_us: float | None = result.extra.get("cpu_us_per_request")
        return cpu_us
    return result.service
