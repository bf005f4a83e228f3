"""The counters of one process, as Prometheus's client keeps them.

With `PROMETHEUS_MULTIPROC_DIR` in the environment of a process from its start, the client keeps them in files
of that directory, so that one process can show those of several; else in memory. Labels are looked up once
for each of their values: a request costs a few dictionary look-ups and additions.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from meetcore.adapters.prometheus import families
from meetcore.adapters.prometheus.families import FAMILIES, Family, Kind
from meetcore.domain.money.transfers import TransferKind
from meetcore.ports.metrics import ListSource, PoolState, ServedRequest

_NEW_POOL: Final = PoolState(0, 0, 0, 0, 0.0)


class _Children(dict[Any, Any]):
    """The values of a metric by their labels; each is made when it is first asked for."""

    def __init__(self, metric: Any) -> None:
        self._metric = metric

    def __missing__(self, labels: Any) -> Any:
        names = labels if isinstance(labels, tuple) else (labels,)
        child = self[labels] = self._metric.labels(*names)
        return child


class PrometheusMetrics:
    """Fills `Metrics`.

    Args:
        registry: where the metrics are registered; one of its own if `None`.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        own = _registered(registry or CollectorRegistry())
        self._served = _Children(own[families.REQUESTS.name])
        self._durations = _Children(own[families.REQUEST_DURATION.name])
        in_progress = own[families.IN_PROGRESS.name]
        # Bound, as these two are called for every request.
        self.begin_request = in_progress.inc
        self.end_request = in_progress.dec
        self._unavailable = _Children(own[families.STORE_UNAVAILABLE.name])
        self._attempts = _Children(own[families.ATTEMPTS.name])
        self._attempt_duration = own[families.ATTEMPT_DURATION.name]
        self._failed = _Children(own[families.DELIVERIES_FAILED.name])
        self._disabled = own[families.ENDPOINTS_DISABLED.name]
        self._expired = _Children(own[families.LEASES_EXPIRED.name])
        self._reconciled = _Children(own[families.RECONCILED.name])
        self._calls = _Children(own[families.PROVIDER_CALLS.name])
        self._call_durations = _Children(own[families.PROVIDER_DURATION.name])
        self._no_host = _Children(own[families.NO_HOST.name])
        self._notes_failed = _Children(own[families.NOTES_FAILED.name])
        self._credits = _Children(own[families.CREDITS.name])
        self._lists = _Children(own[families.LISTS.name])
        self._fallback = own[families.RATE_FALLBACK.name]
        self._own = own
        self._pools: dict[str, PoolState] = {}

    def served(self, request: ServedRequest) -> None:
        self._served[request.operation, request.rate_class, request.status, request.code].inc()
        self._durations[request.operation].observe(request.duration_s)

    def store_unavailable(self, kind: str, pool: str) -> None:
        self._unavailable[pool, kind].inc()

    def pool_state(self, state: PoolState) -> None:
        before = self._pools.get(state.pool, _NEW_POOL)
        now = {
            families.POOL_SIZE: state.size, families.POOL_IDLE: state.idle,
            families.POOL_WAITING: state.waiting,
        }  # fmt: skip
        for family, value in now.items():
            self._own[family.name].labels(state.pool).set(value)
        more = {
            families.POOL_WAITS: state.waits - before.waits,
            families.POOL_WAITED: state.waited_s - before.waited_s,
        }
        for family, added in more.items():
            self._own[family.name].labels(state.pool).inc(max(0, added))
        self._pools[state.pool] = state

    def attempted(self, result: str, duration_s: float) -> None:
        self._attempts[result].inc()
        self._attempt_duration.observe(duration_s)

    def delivery_failed(self, reason: str) -> None:
        self._failed[reason].inc()

    def endpoint_disabled(self) -> None:
        self._disabled.inc()

    def lease_expired(self, subject: str) -> None:
        self._expired[subject].inc()

    def reconciled(self, outcome: str) -> None:
        self._reconciled[outcome].inc()

    def provider_called(self, call: str, result: str, duration_s: float) -> None:
        self._calls[call, result].inc()
        self._call_durations[call].observe(duration_s)

    def no_host(self, seats: int) -> None:
        self._no_host[seats].inc()

    def note_failed(self, reason: str) -> None:
        self._notes_failed[reason].inc()

    def credits_moved(self, kind: TransferKind, credits: int) -> None:
        name = kind.value
        if kind is TransferKind.ADJUSTMENT:
            name = "adjustment_added" if credits > 0 else "adjustment_taken"
        self._credits[name].inc(abs(credits))

    def rate_store(self, *, is_away: bool) -> None:
        self._fallback.set(is_away)

    def list_read(self, source: ListSource) -> None:
        self._lists[source.value].inc()


def _registered(registry: CollectorRegistry) -> Mapping[str, Any]:
    made: Mapping[Kind, Callable[..., Any]] = {
        # A process that has ended counts for nothing in a gauge; what it counted stays.
        Kind.GAUGE: partial(Gauge, multiprocess_mode="livesum"),
        Kind.COUNTER: Counter,
        Kind.HISTOGRAM: Histogram,
    }
    shown_here = (families.BUILD, families.UP)
    return {
        family.name: made[family.kind](
            family.name, family.about, family.labels, registry=registry, **_buckets(family)
        )
        for family in FAMILIES
        if not family.of_store and family not in shown_here
    }


def _buckets(family: Family) -> Mapping[str, Any]:
    return {"buckets": family.buckets} if family.buckets else {}
