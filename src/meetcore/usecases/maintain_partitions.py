"""Making the partitions of events and deliveries that are to come, and dropping those that are over."""

from collections.abc import Callable

from attrs import frozen

from meetcore.ports.partitions import Maintained, PartitionRules, Partitions, PartitionsRefused
from meetcore.usecases.runtime import Runtime


@frozen
class MaintainPartitions:
    """Looks after the partitions of the store, from any number of processes.

    `report` is called with what was done where anything was, waits, or could not be done now;
    `report_refusal` with how things stand and the reason, where it cannot be done from this process.
    """

    partitions: Partitions
    runtime: Runtime
    rules: PartitionRules
    report: Callable[[Maintained], object]
    report_refusal: Callable[[Maintained, str], object]

    async def __call__(self) -> None:
        """Do what is to be done now."""
        now = self.runtime.now()
        try:
            done = await self.partitions.maintain(now, self.rules)
        except PartitionsRefused as refusal:
            self.report_refusal(await self.partitions.plan(now, self.rules), str(refusal))
            return
        if done != Maintained(ahead=done.ahead):
            self.report(done)
