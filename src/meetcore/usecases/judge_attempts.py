"""What a batch of attempts does to deliveries, endpoints and hosts, one attempt after the other.

Owns the states while the batch is judged; the domain decides and the store saves.
"""

from collections.abc import Sequence
from uuid import UUID

from attrs import define, field

from meetcore.domain.webhooks.deliveries import Attempt, judge, record_attempt
from meetcore.domain.webhooks.destinations import HostFailures, count_failure, count_success
from meetcore.domain.webhooks.endpoints import Endpoint, disable_with_host
from meetcore.domain.webhooks.retry_schedule import RetrySchedule
from meetcore.ports.deliveries import Claimed, ClaimedView, Recorded, RecordedHost

_EndpointName = tuple[UUID, UUID]
_HostName = tuple[UUID, str]


@define
class JudgedAttempts:
    """A batch: the deliveries that were loaded, and what has been made of them so far."""

    _views: Sequence[ClaimedView]
    _schedule: RetrySchedule
    recorded: list[Recorded] = field(factory=list, init=False)
    _view_of: dict[tuple[UUID, UUID], ClaimedView] = field(init=False)
    _endpoints: dict[_EndpointName, Endpoint] = field(init=False)
    _hosts: dict[_HostName, HostFailures] = field(init=False)
    _failing: set[_HostName] = field(factory=set, init=False)

    def __attrs_post_init__(self) -> None:
        self._view_of = {(view.delivery.account_id, view.delivery.id): view for view in self._views}
        self._endpoints = {
            (view.endpoint.account_id, view.endpoint.id): view.endpoint for view in self._views
        }
        self._hosts = {_host_of(view.endpoint): view.host for view in self._views}

    @property
    def endpoints(self) -> list[Endpoint]:
        """Every endpoint of the batch, in its last state."""
        return list(self._endpoints.values())

    @property
    def recovered(self) -> set[UUID]:
        """The endpoints whose latest attempt before the batch failed, and whose last one in it did not."""
        failing = {view.endpoint.id for view in self._views if view.endpoint.consecutive_failures}
        return failing & {one.id for one in self._endpoints.values() if not one.consecutive_failures}

    @property
    def hosts(self) -> list[RecordedHost]:
        """Every host of the batch, with its last count."""
        return [RecordedHost(failures, name in self._failing) for name, failures in self._hosts.items()]

    def add(self, claimed: Claimed, attempt: Attempt, jitter: float) -> None:
        """Judge one attempt; one whose claim was lost is skipped.

        Args:
            jitter: drawn from [0, 1).
        """
        view = self._view_of.get((claimed.account_id, claimed.delivery_id))
        if view is None:
            return
        name = view.endpoint.account_id, view.endpoint.id
        before = self._endpoints[name]
        delivery, after = record_attempt(view.delivery, before, attempt, self._schedule, jitter, view.now)
        self._endpoints[name] = after
        self.recorded.append(Recorded(delivery, attempt))
        self._count(view, attempt, before, after)

    def _count(self, view: ClaimedView, attempt: Attempt, before: Endpoint, after: Endpoint) -> None:
        host = _host_of(after)
        if judge(attempt):
            self._hosts[host] = count_success(self._hosts[host])
            return
        self._hosts[host], is_failing = count_failure(self._hosts[host], before, after)
        if is_failing:
            self._failing.add(host)
            for name, endpoint in self._endpoints.items():
                if _host_of(endpoint) == host:
                    self._endpoints[name] = disable_with_host(endpoint, view.now)


def _host_of(endpoint: Endpoint) -> _HostName:
    return endpoint.account_id, endpoint.host
