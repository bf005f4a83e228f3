"""`GET /me` against a bare route with one SELECT."""

from benchmarks.house import House
from benchmarks.load import Load, run_load
from benchmarks.processes import Program
from benchmarks.report import Result, middle

__all__ = ["measure_reads"]


def measure_reads(ours: Program, bare: Program, house: House, rounds: int, seconds: float) -> Result:
    """Take turns; medians."""
    taken: dict[int, list[Load]] = {ours.pid: [], bare.pid: []}
    for program in (ours, bare):
        run_load(program, "me", house.keys, requests=500)
    for _ in range(rounds):
        for program in (bare, ours):
            taken[program.pid].append(run_load(program, "me", house.keys, seconds=seconds))
    mine, floor = taken[ours.pid], taken[bare.pid]
    extra = {
        "cpu_us_per_request": middle([load.cpu_us_per_request for load in mine]),
        "floor_cpu_us_per_request": middle([load.cpu_us_per_request for load in floor]),
        "p50_ms": middle([load.p50_ms for load in mine]),
        "p99_ms": middle([load.p99_ms for load in mine]),
    }
    rate, floor_rate = (middle([load.rate for load in loads]) for loads in (mine, floor))
    return Result("GET /me", rate, floor_rate, "requests/s", "ratio ≥ 0.5", extra)
