"""Spending of an account: its charges less what was refunded, by month, and in a month by key and member."""

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from attrs import evolve, frozen

from meetcore.domain.money.statements import Month
from meetcore.domain.money.transfers import TransferKind

MAX_ENTRIES_SUMMED: Final = 20_000
"""Entries of a month that are summed by key and member, the newest ones."""

_OF_MEETINGS: Final = (TransferKind.MEETING_CHARGE, TransferKind.MEETING_REFUND)
_SPENDING: Final = (*_OF_MEETINGS, TransferKind.NOTULEN_CHARGE)


@frozen
class Payer:
    """The key that spent; `None` for actions by hand, with the `member` who made the meeting, if known."""

    key_id: UUID | None
    member: str | None = None


@frozen
class PayerTotal:
    """The sum of the entries of one kind that a payer caused; `credits` is negative for charges."""

    payer: Payer
    kind: TransferKind
    credits: int
    entries: int


@frozen
class Spent:
    """Credits spent on meetings and on notes; a refund of an earlier month can make one negative."""

    meetings: int = 0
    notes: int = 0

    @property
    def total(self) -> int:
        """The sum of both."""
        return self.meetings + self.notes


def add_up(kinds: Iterable[tuple[TransferKind, int]]) -> Spent:
    """Add up the credits of each kind, negative for charges; other kinds are no spending."""
    spent = Spent()
    for kind, credits in kinds:
        if kind in _OF_MEETINGS:
            spent = evolve(spent, meetings=spent.meetings - credits)
        elif kind is TransferKind.NOTULEN_CHARGE:
            spent = evolve(spent, notes=spent.notes - credits)
    return spent


def by_payer(totals: Sequence[PayerTotal]) -> Sequence[tuple[Payer, Spent]]:
    """Return what each payer spent, the largest sum first; payers without charges or refunds are left out."""
    kinds: dict[Payer, list[tuple[TransferKind, int]]] = {}
    for one in totals:
        if one.kind in _SPENDING:
            kinds.setdefault(one.payer, []).append((one.kind, one.credits))
    return sorted(((payer, add_up(each)) for payer, each in kinds.items()), key=lambda pair: -pair[1].total)


def is_partial(totals: Iterable[PayerTotal]) -> bool:
    """Return whether the month may have more entries than were summed."""
    return sum(one.entries for one in totals) >= MAX_ENTRIES_SUMMED


@frozen
class Spending:
    """The spending of an account.

    `months` are those since the first entry, the newest first; `payers` those of `month`, the largest sum
    first, of its newest `MAX_ENTRIES_SUMMED` entries if it `is_partial`.
    """

    month: Month
    months: Sequence[tuple[Month, Spent]]
    payers: Sequence[tuple[Payer, Spent]]
    is_partial: bool = False
