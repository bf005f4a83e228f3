"""A tool call against the same operation over HTTP: the processor time that the agent interface adds."""

from benchmarks.load import run_load
from benchmarks.processes import Program
from benchmarks.report import Result, middle
from benchmarks.seeds import SeededAccounts

__all__ = ["measure_agents"]

SAME = {"get_me": ("tool_me", "me"), "create_meeting": ("tool_meetings", "meetings")}


def measure_agents(service: Program, seeded: SeededAccounts, rounds: int, seconds: float) -> list[Result]:
    """Return the medians of alternating turns, with the protocol's more expensive revision."""
    results = []
    for tool, kinds in SAME.items():
        taken: dict[str, list[float]] = {kind: [] for kind in kinds}
        for kind in kinds:
            run_load(service, kind, seeded.keys, requests=200)
        for _ in range(rounds):
            for kind, times in taken.items():
                times.append(
                    run_load(service, kind, seeded.keys, seconds=seconds / 2).cpu_us_per_request / 1000
                )
        by_tool, direct = (middle(times) for times in taken.values())
        extra = {"added_ms": by_tool - direct, "note": f"it adds {by_tool - direct:.2f} ms"}
        results.append(Result(f"tool {tool}", by_tool, direct, "CPU ms/call", "adds ≤ 3 ms", extra))
    return results
