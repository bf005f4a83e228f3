"""Amounts, transfers, holds and the states of an account between two decisions.

What is drawn here stands alone: a state that could be, not one that a history led to. `account_histories`
folds whole histories through the rules. Owns no rule: what may be done with a value the domain says.
"""

from datetime import date
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from meetcore.domain.money.holds import CapUsage, Hold
from meetcore.domain.money.ledger import Funds
from meetcore.domain.money.transfers import MAX_CREDITS, ROUTES, Book, Reference, Transfer, TransferKind
from meetcore.testing.strategies.moments import days

__all__ = ["amounts", "bad_amounts", "cap_usages", "funds", "holds", "references", "transfers"]

_CHARGES = st.sampled_from([TransferKind.MEETING_CHARGE, TransferKind.NOTULEN_CHARGE])
_TEXTS = st.text("abc:09é", min_size=1, max_size=8)


def amounts(max_value: int = MAX_CREDITS) -> SearchStrategy[int]:
    """Whole numbers of credits that `check_amount` lets through, up to `max_value`."""
    return st.integers(1, max_value) | st.sampled_from([1, max_value])


def bad_amounts() -> SearchStrategy[Any]:
    """What is no amount: numbers out of range, bools, floats (NaN and infinity too), texts, nothing."""
    return st.one_of(
        st.integers(max_value=0),
        st.integers(min_value=MAX_CREDITS + 1),
        st.booleans(),
        st.floats(),
        st.decimals(),
        st.text(max_size=3),
        st.none(),
    )


def references() -> SearchStrategy[Reference]:
    """What a transfer is about: a record's type and its id."""
    return st.builds(Reference, st.sampled_from(["meeting", "note", "topup", "ticket"]), _TEXTS)


def transfers(kind: TransferKind | None = None) -> SearchStrategy[Transfer]:
    """Transfers of the kind, or of any, along the route of their kind and with the marks it bears."""
    kinds = st.sampled_from(TransferKind) if kind is None else st.just(kind)
    return kinds.flatmap(_transfers_of)


def _transfers_of(kind: TransferKind) -> SearchStrategy[Transfer]:
    grant, correction = (Book.ADJUSTMENTS, Book.CUSTOMER), (Book.CUSTOMER, Book.ADJUSTMENTS)
    routes = st.sampled_from([ROUTES[kind]] if kind in ROUTES else [grant, correction])
    by_a_key = kind not in (TransferKind.TOPUP, TransferKind.ADJUSTMENT)
    ids, nothing = st.uuids(version=4), st.none()
    return st.builds(
        lambda route, **fields: Transfer(kind=kind, source=route[0], destination=route[1], **fields),
        route=routes,
        id=ids,
        operation=_TEXTS,
        amount=amounts(),
        reference=references(),
        reverses=ids if kind is TransferKind.MEETING_REFUND else nothing,
        api_key_id=ids if by_a_key else nothing,
        cap_day=days() if by_a_key else nothing,
    )


def holds(api_key_id: UUID, day: date, max_amount: int = 100) -> SearchStrategy[Hold]:
    """Reservations of the key on its cap day, for a meeting or for notes."""
    return st.builds(
        Hold, st.uuids(version=4), _TEXTS, _CHARGES, amounts(max_amount), references(),
        st.just(api_key_id), st.just(day),
    )  # fmt: skip


def funds(account_id: UUID, max_value: int = 1_000) -> SearchStrategy[Funds]:
    """An account that has spent, holds and perhaps owes: figures up to `max_value`, the low mark either way.

    The mark is one that a decision can leave: an account that stands at or above its threshold is not
    marked as low.
    """

    def marked(balance: int, held: int, threshold: int, was_notified: bool) -> Funds:
        is_low = was_notified and balance - held < threshold
        return Funds(account_id, balance, held, threshold, is_low)

    figures = st.integers(0, max_value)
    return st.builds(marked, st.integers(-max_value, max_value), figures, figures, st.booleans())


def cap_usages(api_key_id: UUID, day: date, max_value: int = 100) -> SearchStrategy[CapUsage]:
    """What a key spent and holds on a day."""
    figures = st.integers(0, max_value)
    return st.builds(CapUsage, st.just(api_key_id), st.just(day), figures, figures)
