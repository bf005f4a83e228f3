"""docs/performance.md and its charts, made of the figures that the runs left in docs/performance/*.json.

Each form of `make bench` fills its own file, and the page is made of all of them.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.charts import Chart, draw
from benchmarks.goals import is_met
from benchmarks.report import Result, as_text
from benchmarks.texts import INTRODUCTION, SECTIONS, Section, about

__all__ = ["read_figures", "save_figures", "wanted_files", "write_page"]

_VERDICTS = {True: "yes", False: "**no**", None: ""}
_RATIO_LIMIT = 1.2


def save_figures(docs: Path, section: str, results: list[Result], machine: Mapping[str, Any]) -> None:
    """Put the figures of a run in the place of those of the last run of its form, and make the page anew."""
    figures = {"machine": dict(machine), "results": [each.record() for each in results]}
    place = docs / "performance"
    place.mkdir(exist_ok=True)
    (place / f"{section}.json").write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", "utf-8")
    write_page(docs)


def write_page(docs: Path) -> None:
    """Write the page and the charts, of the figures that are there."""
    for path, text in wanted_files(read_figures(docs)).items():
        (docs / path).write_text(text, "utf-8")


def read_figures(docs: Path) -> dict[str, Any]:
    """The figures by section, in the order of the page."""
    files = {name: docs / "performance" / f"{name}.json" for name in SECTIONS}
    return {name: json.loads(file.read_text("utf-8")) for name, file in files.items() if file.exists()}


def wanted_files(figures: Mapping[str, Any]) -> dict[str, str]:
    """Every file that is made of these figures, by its path below docs/."""
    results = {name: [Result.of(each) for each in figures[name]["results"]] for name in figures}
    charts = {
        f"performance/{name}.svg": chart for name in figures if (chart := _chart(name, results[name])) != ""
    }
    sections = [
        "\n".join(
            _section(
                name, results[name], figures[name]["machine"], has_chart=f"performance/{name}.svg" in charts
            )
        )
        for name in figures
    ]
    page = "\n".join([INTRODUCTION, *_verdicts(results), *sections])
    return {"performance.md": page.rstrip("\n") + "\n"} | charts


def _verdicts(results: Mapping[str, list[Result]]) -> Iterator[str]:
    """How many goals are met, and which are not."""
    judged = [(name, each, is_met(each)) for name, of_it in results.items() for each in of_it]
    missed = [(name, each) for name, each, met in judged if met is False]
    decided = sum(met is not None for _, _, met in judged)
    if not decided:
        yield "No run has been kept yet.\n"
        return
    yield f"**{decided - len(missed)} of {decided} goals are met.**" + (" Not met:" if missed else "")
    yield ""
    for name, each in missed:
        yield f"- {SECTIONS[name].title}: {each.name}, {_reached(each)}; the goal is {each.goal}"
    if missed:
        yield ""


def _reached(result: Result) -> str:
    ours = f"{as_text(result.service)} {result.unit}"
    return ours if result.ratio is None else f"{ours}, ratio {as_text(result.ratio)}"


def _section(
    name: str, results: list[Result], machine: Mapping[str, Any], *, has_chart: bool
) -> Iterator[str]:
    section = SECTIONS[name]
    yield f"## {section.title}\n"
    yield f"{section.about}\n"
    yield f"`{section.command}`, {_measured(machine)}\n"
    if has_chart:
        yield f'<img src="performance/{name}.svg" width="760" alt="{section.title}, as a chart">\n'
    yield from _table(section, results)
    notes = [(each.name, each.extra["note"]) for each in results if each.extra.get("note")]
    if notes:
        yield "\nBeside the table:\n"
        yield from (f"- {of}: {note}" for of, note in notes)
    yield ""


def _measured(machine: Mapping[str, Any]) -> str:
    return (
        f"{machine['date']}: {machine['cores']} cores of {machine['cpu']}, {machine['memory_gb']} GB of "
        "memory; "
        f"Python {machine['python']}, PostgreSQL {machine['postgresql']}, Redis {machine['redis']}, "
        f"meetcore {machine['meetcore']}."
    )


def _table(section: Section, results: list[Result]) -> Iterator[str]:
    has_cpu = any(each.extra.get("cpu_us_per_request") for each in results)
    has_trips = any("trips" in each.extra for each in results)
    own, floor = section.columns
    heads = ["what", own, floor, "ratio", "unit"]
    heads += ["CPU µs a request"] * has_cpu + ["trips to the database"] * has_trips + ["goal", "met"]
    yield "| " + " | ".join(heads) + " |"
    yield "|---" + "|--:" * 3 + "|---" + "|--:" * (has_cpu + has_trips) + "|---|---|"
    for each in results:
        text = about(each.name)
        cells = [f"{each.name}<br><small>{text}</small>" if text else each.name]
        cells += [as_text(each.service), as_text(each.floor), as_text(each.ratio), each.unit]
        cells += [_processor(each)] * has_cpu + [str(each.extra.get("trips", ""))] * has_trips
        yield "| " + " | ".join([*cells, each.goal, _VERDICTS[is_met(each)]]) + " |"


def _processor(result: Result) -> str:
    own, floor = (result.extra.get(name) for name in ("cpu_us_per_request", "floor_cpu_us_per_request"))
    if own is None:
        return ""
    return as_text(own) if floor is None else f"{as_text(own)} (floor {as_text(floor)})"


def _chart(name: str, results: list[Result]) -> str:
    """The curves of a section, each in parts of its first figure; empty where it has none."""
    section = SECTIONS[name]
    curves = {each.name: each.extra["curve"] for each in results if len(each.extra.get("curve", ())) > 1}
    if not section.is_growth or not curves:
        return ""
    lines = {of: [(rows, figure / points[0][1]) for rows, figure in points] for of, points in curves.items()}
    is_cost = name == "growth"
    return draw(
        Chart(
            section.title,
            "rows" if is_cost else "meetings",
            "cost of one operation ÷ cost at the fewest rows" if is_cost else "rate ÷ rate of the first",
            lines,
            _RATIO_LIMIT if is_cost else 0.95,
            "goal: at most 1.2" if is_cost else "goal: at least 0.95",
        )
    )
