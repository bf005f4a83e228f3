"""A tool call against the same operation over HTTP: the processor time that the agent interface adds."""

from benchmarks.house import House
from benchmarks.load import run_load
from benchmarks.processes import Program
from benchmarks.report import Result, middle

__all__ = ["measure_agents"]

SAME = {"get_me": ("tool_me", "me"), "create_meeting": ("tool_meetings", "meetings")}


def measure_agents(ours: Program, house: House, rounds: int, seconds: float) -> list[Result]:
    """Take turns; medians. Of the protocol's revisions the dearer one, with a handshake."""
    results = []
    for tool, kinds in SAME.items():
        taken: dict[str, list[float]] = {kind: [] for kind in kinds}
        for kind in kinds:
            run_load(ours, kind, house.keys, requests=200)
        for _ in range(rounds):
            for kind, times in taken.items():
                times.append(run_load(ours, kind, house.keys, seconds=seconds / 2).cpu_us_per_request / 1000)
        called, asked = (middle(times) for times in taken.values())
        extra = {"added_ms": called - asked, "note": f"it adds {called - asked:.2f} ms"}
        results.append(Result(f"tool {tool}", called, asked, "CPU ms/call", "adds ≤ 3 ms", extra))
    return results
