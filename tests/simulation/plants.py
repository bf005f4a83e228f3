"""Faults that are planted into the program, to prove that a run finds such ones.

Each is a change of one statement or one method, as a slip of an author would be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from attrs import evolve

from meetcore.adapters.postgres.meetings import create, lifecycle, upkeep
from meetcore.adapters.postgres.money import postings
from meetcore.adapters.postgres.notes import create as notes
from meetcore.adapters.postgres.payments import payments
from meetcore.adapters.postgres.requests import retention
from meetcore.domain.meetings import cancellation, meetings, sessions
from meetcore.domain.notes import recordings
from meetcore.domain.payments import payments as paying
from meetcore.domain.webhooks import deliveries
from meetcore.ports import video_provider
from meetcore.usecases.meetings import bounded_provider, creation
from meetcore.usecases.meetings.reconcile_meetings import ReconcileMeetings
from meetcore.usecases.notes.note_charges import ConcludeRecording
from meetcore.usecases.payments import follow_payments
from tests.simulation import outside


def _without(module: Any, name: str, part: str, instead: str = "") -> Callable[[], None]:
    """Return a plant that changes a part of a statement, which must be there."""

    def plant() -> None:
        statement = module.SQL[name]
        assert part in statement, f"{name} has no {part!r}"
        module.SQL[name] = statement.replace(part, instead)

    return plant


def _without_in_each(module: Any, names: tuple[str, ...], part: str, instead: str) -> Callable[[], None]:
    def plant() -> None:
        for name in names:
            _without(module, name, part, instead)()

    return plant


def _never_reconciled() -> None:
    async def sweep(*_: object, **__: object) -> int:
        return 0

    ReconcileMeetings.sweep = sweep  # type: ignore[method-assign]


def _unguarded_calls() -> None:
    for module in (video_provider, bounded_provider, outside):
        module.require_lease = lambda: None  # type: ignore[attr-defined]


def _latest_event_counts() -> None:
    def record(known: Iterable[sessions.Session], reported: sessions.Session) -> sessions.Sessions:
        return (*(one for one in known if one.id != reported.id), reported)

    sessions.record = record


def _refund_while_running() -> None:
    cancellation.REFUNDED = frozenset(cancellation.ProviderMeetingState)  # type: ignore[misc]


def _days_in_utc() -> None:
    creation.cap_day = lambda at: at.date()  # type: ignore[attr-defined]


def _never_concluded() -> None:
    async def give_up(*_: object) -> int:
        return 0

    ConcludeRecording._give_up = give_up  # type: ignore[assignment]


def _orphans_left() -> None:
    part = "%(orphan_window_s)s::float8 IS NOT NULL"
    _without_in_each(create, ("save_provisioning", "save_if_unchanged"), part, "false")()
    _without(create, "save_abandoned", "    WHERE %(look_again_s)s::float8 IS NOT NULL", "    WHERE false")()


def _any_answer_counts() -> None:
    deliveries.judge = lambda attempt: attempt.status_code is not None


def _forgotten_when_unanswered() -> None:
    follow_payments._unanswered = paying.looked


def _posted_for_any_amount() -> None:
    follow = paying.follow

    def lenient(payment: Any, answer: Any, now: Any, **named: Any) -> Any:
        return follow(payment, evolve(answer, amount=payment.amount), now, **named)

    paying.follow = lenient


def _recordings_for_nothing() -> None:
    quote_meeting = meetings.quote_meeting  # type: ignore[attr-defined]
    meetings.quote_meeting = lambda tier, flags: evolve(  # type: ignore[attr-defined]
        quote_meeting(tier, flags), credits=tier.credits
    )


def _recordings_not_announced() -> None:
    recordings.became_ready = lambda *_: ()


PLANTS: Final[Mapping[str, Callable[[], None]]] = {
    "lost fence": _without(
        create,
        "load_leased",
        "AND COALESCE(m.lease_token, '00000000-0000-0000-0000-000000000000') = %(token)s::uuid",
    ),
    "settled without the lease": _without(create, "save_scheduled", "AND m.lease_token = %(token)s"),
    "lost update of funds": _without(
        create, "save_scheduled", "AND a.version = COALESCE(%(version)s::bigint, a.version)"
    ),
    "hold kept at the charge": _without(
        create,
        "save_scheduled",
        "charge_id = %(transfer_id)s, hold_id = NULL",
        "charge_id = %(transfer_id)s",
    ),
    "hold kept at giving up": _without(
        create,
        "save_abandoned",
        "status = %(meeting_status)s, hold_id = NULL,",
        "status = %(meeting_status)s,",
    ),
    "host kept at giving up": _without(
        create,
        "save_abandoned",
        "DELETE FROM host_reservations WHERE account_id",
        "DELETE FROM host_reservations WHERE false AND account_id",
    ),
    "answer not stored": _without(
        create,
        "save_scheduled",
        "SET is_done = true, lease_until = NULL",
        "SET lease_until = NULL",
    ),
    "other leg of another amount": _without(
        create, "save_scheduled", "-%(entry_amount)s::bigint, NULL", "1 - %(entry_amount)s::bigint, NULL"
    ),
    "recordings for nothing": _recordings_for_nothing,
    "recording announced by no event": _recordings_not_announced,
    "orphan not looked for": _orphans_left,
    "orphan check closed at once": _without(
        upkeep, "postpone_orphan_check", "due_at = clock_timestamp() +", "due_at = clock_timestamp() + 1000 *"
    ),
    "expired leases left": _never_reconciled,
    "calls after the lease": _unguarded_calls,
    "event without delivery": _without(
        create,
        "save_scheduled",
        "WHERE account_id = %(account_id)s AND e.kind = ANY (event_types)",
        "WHERE false AND account_id = %(account_id)s AND e.kind = ANY (event_types)",
    ),
    "delivery counted at any answer": _any_answer_counts,
    "host reserved for a minute": _without_in_each(
        create,
        ("save_provisioning", "save_if_unchanged"),
        "tstzrange(%(start_at)s, %(end_at)s)",
        "tstzrange(%(start_at)s, %(start_at)s::timestamptz + interval '1 minute')",
    ),
    "latest event counts": _latest_event_counts,
    "refund while a session runs": _refund_while_running,
    "end announced to no endpoint": _without(
        lifecycle,
        "save_ended",
        "WHERE account_id = %(account_id)s AND e.kind = ANY (event_types)",
        "WHERE false AND account_id = %(account_id)s AND e.kind = ANY (event_types)",
    ),
    "cap without what is held": _without_in_each(
        create,
        ("save_provisioning", "save_if_unchanged"),
        "DO UPDATE SET spent = EXCLUDED.spent, held = EXCLUDED.held",
        "DO UPDATE SET spent = EXCLUDED.spent",
    ),
    "days of a cap in UTC": _days_in_utc,
    "refund of a payment not sent": _without(
        payments, "claim_due", "WHERE next_look_at <=", "WHERE status <> 'refunded' AND next_look_at <="
    ),
    "payment posted for any amount": _posted_for_any_amount,
    "chargeback forgotten": _forgotten_when_unanswered,
    "limit of operators without the account": _without(
        postings, "moved_alone", "FILTER (WHERE g.account_id = %(account_id)s)", "FILTER (WHERE false)"
    ),
    "hold kept at a failed note": _without(
        notes,
        "save_failed",
        "DELETE FROM note_holds\n    WHERE",
        "DELETE FROM note_holds\n    WHERE false AND",
    ),
    "events of an erased account kept": _without(
        retention, "delete_events", "WHERE account_id =", "WHERE false AND account_id ="
    ),
    "recording that never came kept": _never_concluded,
    "refund without the balance": _without(
        lifecycle, "save_refunded", "AND EXISTS (SELECT FROM guard)\n), event", "AND false\n), event"
    ),
}
"""What is planted, by its name."""
FOUND_WITHIN: Final[Mapping[str, int]] = {
    "lost update of funds": 4,
    "hold kept at the charge": 4,
    "cap without what is held": 4,
    "refund without the balance": 4,
    "event without delivery": 4,
    "host reserved for a minute": 4,
    "hold kept at giving up": 4,
    "days of a cap in UTC": 4,
    "latest event counts": 4,
    "payment posted for any amount": 4,
    "end announced to no endpoint": 4,
    "orphan check closed at once": 4,
    "expired leases left": 4,
    "answer not stored": 4,
    "other leg of another amount": 4,
    "recordings for nothing": 4,
    "recording announced by no event": 4,
    "host kept at giving up": 4,
    "limit of operators without the account": 6,
    "delivery counted at any answer": 8,
    "refund of a payment not sent": 8,
    "hold kept at a failed note": 5,
    "lost fence": 6,
    "events of an erased account kept": 6,
    "recording that never came kept": 6,
    "orphan not looked for": 8,
    "refund while a session runs": 8,
}
"""Of how many seeds, from 1 on, one finds the plant, as measured, with room for two seeds more, up to eight.

`make simulate ARGS=--plants` runs them. A plant that is not here was found on none of the first eight.
"""
