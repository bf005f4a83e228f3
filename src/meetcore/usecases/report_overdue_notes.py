"""Report notes that stay due, from a process that was to make them and lacks the packages."""

from collections.abc import Callable

from attrs import frozen

from meetcore.ports.store import Store

OVERDUE_S = 60.0
"""Longer than a free worker leaves a note: another process may be able to make it."""


@frozen
class ReportOverdueNotes:
    """Call `report` while a note or a recording has been due for more than a minute."""

    store: Store
    report: Callable[[], object]
    overdue_s: float = OVERDUE_S

    async def __call__(self) -> None:
        """Look once."""
        async with self.store.at_once() as tx:
            is_overdue = await tx.notes.is_any_overdue(self.overdue_s)
        if is_overdue:
            self.report()
