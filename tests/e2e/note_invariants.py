"""Invariants over notes: their records, their charges and their events."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from uuid import UUID

from attrs import frozen

from meetcore.client import Note
from tests.e2e.customers import Customer
from tests.e2e.outbox import ask
from tests.e2e.receiver import Receiver
from tests.support.program import Site

__all__ = [
    "Records",
    "expire_leases",
    "is_idle",
    "make_due",
    "postpone",
    "prove",
    "read_records",
    "under_way",
]

_UNDER_WAY = """SELECT id FROM notes WHERE due_at IS NOT NULL
                UNION ALL SELECT id FROM recordings WHERE due_at IS NOT NULL
                UNION ALL SELECT id FROM provider_events WHERE due_at IS NOT NULL
                UNION ALL SELECT id FROM deliveries WHERE status = 'pending'"""
_CREDITS_PER_MINUTE = 1


@frozen
class Records:
    """The database's records by note id; `spent` by account."""

    statuses: dict[UUID, str]
    seconds: dict[UUID, int]
    errors: dict[UUID, str]
    charges: dict[UUID, int]
    event_kinds: Counter[tuple[UUID, str]]
    spent: Counter[str]


def under_way(site: Site) -> int:
    """Count the items that are still due."""
    return len(ask(site, _UNDER_WAY))


def is_idle(site: Site) -> bool:
    """Return whether no work on recordings, notes or deliveries is left."""
    return under_way(site) == 0


def make_due(site: Site) -> None:
    """Make scheduled checks of recordings and retries of events due now."""
    ask(
        site, "UPDATE recordings SET due_at = now() WHERE due_at > now() AND lease_token IS NULL RETURNING id"
    )
    ask(site, "UPDATE provider_events SET due_at = now() WHERE due_at > now() RETURNING id")


def postpone(site: Site) -> None:
    """Postpone the work of dead workers until `expire_leases`."""
    ask(site, "UPDATE notes SET due_at = now() + interval '1 hour' WHERE due_at IS NOT NULL RETURNING id")
    ask(
        site, "UPDATE recordings SET due_at = now() + interval '1 hour' WHERE due_at IS NOT NULL RETURNING id"
    )


def expire_leases(site: Site) -> None:
    """Make the postponed work of dead workers due now."""
    ask(site, "UPDATE notes SET due_at = now() WHERE due_at > now() RETURNING id")
    ask(site, "UPDATE recordings SET due_at = now() WHERE due_at > now() RETURNING id")


def read_records(site: Site) -> Records:
    """Read the notes and their money."""
    notes = ask(site, "SELECT id, status, duration_s, error FROM notes")
    paid = ask(site, "SELECT reference_id, amount FROM ledger_transfers WHERE kind = 'notulen_charge'")
    charges = {UUID(str(id_)): int(str(amount)) for id_, amount in paid}
    assert len(charges) == len(paid), "no note is charged twice"
    rows = ask(site, "SELECT subject_id, kind FROM events WHERE kind LIKE 'note.%%'")
    spent: Counter[str] = Counter()
    for account_id, kind, amount in ask(
        site, "SELECT account_id, kind, amount FROM ledger_transfers WHERE kind <> 'topup'"
    ):
        spent[str(account_id)] += int(str(amount)) * (-1 if kind == "meeting_refund" else 1)
    return Records(
        {UUID(str(id_)): str(status) for id_, status, *_ in notes},
        {UUID(str(id_)): int(str(seconds)) for id_, _, seconds, _ in notes},
        {UUID(str(id_)): str(error) for id_, *_, error in notes if error is not None},
        charges,
        Counter((UUID(str(id_)), str(kind)) for id_, kind in rows),
        spent,
    )


def prove(site: Site, customers: list[Customer], receiver: Receiver, path: str) -> Records:
    """Check records, funds and posts when no work is left; every customer has a webhook at `path`."""
    records = read_records(site)
    by_status: dict[str, set[UUID]] = defaultdict(set)
    for id_, status in records.statuses.items():
        by_status[status].add(id_)
    assert by_status.keys() <= {"completed", "failed"}, "none is lost"
    begun = {id_: -(-records.seconds[id_] // 60) * _CREDITS_PER_MINUTE for id_ in by_status["completed"]}
    assert records.charges == begun, "a charge for each completed note, by its begun minutes, and none else"
    assert records.errors.keys() == by_status["failed"], "who failed says why"
    once = {(id_, f"note.{status}") for id_, status in records.statuses.items()}
    assert records.event_kinds == Counter(once), "each is notified once"
    _prove_funds(site, customers, records)
    _prove_posts(site, customers, receiver, path, once)
    proof = site.cli("credits", "verify")
    assert (proof["is_sound"], proof["findings"]) == (True, [])
    return records


def _prove_funds(site: Site, customers: list[Customer], records: Records) -> None:
    assert ask(site, "SELECT count(*) FROM ledger_holds") == [(0,)]
    for who in customers:
        spent = records.spent[who.account_id]
        funds = ask(site, "SELECT balance, held FROM accounts WHERE id = %s", who.account_id)
        assert funds == [(who.credits - spent, 0)], "paid is what there is, and nothing is held"
        statement = """SELECT coalesce(sum(spent), 0)::int, coalesce(sum(held), 0)::int FROM cap_usage
                       WHERE account_id = %s"""
        assert ask(site, statement, who.account_id) == [(spent, 0)], "and so says the cap's usage"


def _prove_posts(
    site: Site, customers: list[Customer], receiver: Receiver, path: str, once: set[tuple[UUID, str]]
) -> None:
    """Check the received posts: an event may arrive twice, but exists once."""
    events = {post.event_id: json.loads(post.body) for post in receiver.at(path)}
    about = [(UUID(each["data"]["id"]), each["type"]) for each in events.values()]
    assert {each for each in about if each[1].startswith("note.")} == once
    recordings = {
        (UUID(str(id_)), "recording.ready")
        for (id_,) in ask(site, "SELECT id FROM recordings WHERE status <> 'measuring'")
    }
    assert Counter(about) == Counter(once | recordings), "no event is doubled"
    shown: dict[str, Note] = {
        note.id: note for who in customers for note in who.api.notes.list(page_size=100)
    }
    for each in events.values():
        if each["type"].startswith("note."):
            note = shown[each["data"]["id"]]
            assert (note.status, note.credits_charged) == (
                each["data"]["status"], each["data"]["credits_charged"],
            )  # fmt: skip
