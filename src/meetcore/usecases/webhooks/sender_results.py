"""What a process keeps of its posts to tell the sender's faults from the receivers'."""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from attrs import define, evolve, field

from meetcore.domain.webhooks import sender_faults


@define
class RecentResults:
    """The latest result at each host that a process posted to in the last minute."""

    _latest: dict[str, sender_faults.HostResult] = field(factory=dict, init=False)

    def add(
        self, host: str, account_id: UUID, error: str | None, at: datetime, *, was_failing: bool = False
    ) -> None:
        """Take the result of a post; `error` is `Attempt.error`.

        `was_failing` where the post before it failed, too, and counted against the endpoint.
        """
        self._forget(at)
        known = self._latest.pop(host, None)
        if was_failing and known is None and error in sender_faults.TRANSPORT_ERRORS:
            return
        self._latest[host] = sender_faults.HostResult(account_id, error, at)

    def shared_error(self, at: datetime) -> str | None:
        """Return the transport error that is the sender's at present; `None` where there is none."""
        self._forget(at)
        return sender_faults.shared_error(self._latest.values())

    def is_at_all_hosts(self, error: str) -> bool:
        """Return whether no host of the last minute has another result."""
        return all(one.error == error for one in self._latest.values())

    def _forget(self, at: datetime) -> None:
        # In the order of their addition; a clock that was set back leaves results of the future.
        while self._latest:
            oldest = next(iter(self._latest))
            if abs(at - self._latest[oldest].at) <= sender_faults.RESULTS_KEPT:
                break
            del self._latest[oldest]


@define
class PresentFaults:
    """The faults of a sender that are not over yet."""

    _present: dict[sender_faults.SenderFault, sender_faults.FaultPeriod] = field(factory=dict, init=False)

    def add(
        self, faults: Mapping[sender_faults.SenderFault, int], at: datetime
    ) -> list[sender_faults.SenderFault]:
        """Take how many deliveries each fault put off; return those faults that begin."""
        begun = [fault for fault in faults if fault not in self._present]
        for fault, count in faults.items():
            known = self._present.get(fault, sender_faults.FaultPeriod(fault, at, at))
            self._present[fault] = evolve(known, last_at=at, put_off=known.put_off + count)
        return begun

    def end(self, at: datetime) -> list[sender_faults.FaultPeriod]:
        """Return the faults that are over, once each."""
        over = [one for one in self._present.values() if at - one.last_at >= sender_faults.FAULT_OVER]
        for one in over:
            del self._present[one.fault]
        return over
