"""What holds of money: the ledger, meetings, payments at their gateway, and what operators moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date
from typing import Any
from uuid import UUID

from meetcore.adapters.postgres.money.rows import entry
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.money.ledger import first_broken
from meetcore.domain.money.proposals import ProposalKind
from meetcore.domain.payments.payments import GatewayStatus
from meetcore.domain.payments.refunds import RefundState
from tests.simulation.customers import Account
from tests.simulation.database import SimulatedDatabase
from tests.simulation.enrolment import Crowd
from tests.simulation.operators import ABOVE, Movement
from tests.simulation.payments import Money
from tests.support.postgres_rig import ENTRIES

LIVE = ("scheduled", "started")
_PAYMENTS = """SELECT p.id, p.account_id, p.status, p.doubt, p.doubt_closed_at, p.price + p.tax AS amount,
    p.credits, r.credits AS taken_back, r.amount AS owed, r.failed_at, r.refused_at,
    (SELECT count(*) FROM ledger_transfers t WHERE t.operation = 'topup:payment:' || p.id) AS topups,
    (SELECT count(*) FROM receipts c WHERE c.payment_id = p.id) AS receipts,
    (SELECT count(*) FROM ledger_transfers t
        WHERE t.operation = 'topup_refund:payment:' || p.id) AS refunds
    FROM payments p LEFT JOIN payment_refunds r ON r.payment_id = p.id"""
_RECEIPTS = "SELECT year, max(number) AS last, count(*) AS number FROM receipts GROUP BY year"
_NOTED = """SELECT COALESCE(sum(credits_charged), 0)::int AS credits FROM notes
    WHERE account_id = %s"""
_SPENT = """SELECT t.kind, t.api_key_id, t.cap_day, m.created_at, m.api_key_id AS sold_to, e.amount
    FROM ledger_transfers t
    JOIN ledger_entries e ON e.account_id = t.account_id AND e.transfer_id = t.id AND e.book = 'customer'
    LEFT JOIN meetings m ON m.account_id = t.account_id AND m.charge_id IN (t.id, t.reverses)
    WHERE t.kind IN ('meeting_charge', 'meeting_refund', 'notulen_charge')
    ORDER BY e.account_id, e.number"""
_UNEVEN = """SELECT transfer_id, sum(amount) AS sum FROM ledger_entries GROUP BY account_id, transfer_id
    HAVING sum(amount) <> 0 OR count(*) <> 2"""
_TOPUPS = """SELECT account_id, count(*) AS topups, (SELECT count(*) FROM events e
        WHERE e.account_id = t.account_id AND e.kind = 'credit.topup.succeeded') AS events
    FROM ledger_transfers t WHERE kind = 'topup' GROUP BY account_id"""


def judge_money(database: SimulatedDatabase, crowd: Crowd, meetings: dict[Any, Any]) -> Iterator[str]:
    """Return what is wrong with money, in sentences."""
    rows = database.control.execute(_PAYMENTS).fetchall()
    for row in rows:
        yield from _payment(row, crowd.gateway.payments.get(row["id"], Money(0, "IDR")))
    for name, payment_id in sorted(each for buyer in crowd.buyers for each in buyer.started.items()):
        if payment_id not in {row["id"] for row in rows}:
            yield f"the payment of {name} is not there"
    for row in database.control.execute(_RECEIPTS).fetchall():
        if row["last"] != row["number"]:
            yield f"the last of {row['number']} receipts of {row['year']} is number {row['last']}"
    erased = {each.id for each in crowd.accounts if each.is_erased}
    for row in database.control.execute(_TOPUPS).fetchall():
        if row["topups"] != row["events"] and row["account_id"] not in erased:
            yield f"{row['topups']} top-ups were announced by {row['events']} events"
    for row in database.control.execute(_UNEVEN).fetchall():
        yield f"the entries of the transfer {row['transfer_id']} add up to {row['sum']}"
    yield from _caps(database, {each.key_id: each.daily_cap for each in crowd.customers})
    moved = [each for operator in crowd.operators for each in operator.moved]
    yield from _limits(moved)
    for account in crowd.accounts:
        yield from _balance(database, account, meetings, _bought(account, rows, moved))


def _bought(account: Account, rows: Iterable[dict[str, Any]], moved: Iterable[Movement]) -> int:
    """Return the credits that an account was given, without what it spent."""
    own = [row for row in rows if row["account_id"] == account.id]
    paid: int = sum(row["credits"] for row in own if row["topups"])
    back: int = sum(row["taken_back"] for row in own if row["taken_back"] and not row["failed_at"])
    adjusted = sum(
        each.amount
        for each in moved
        if each.account_id == account.id and each.kind is ProposalKind.ADJUSTMENT
    )
    return account.credits + paid - back + adjusted


def _balance(
    database: SimulatedDatabase, account: Account, meetings: dict[Any, Any], bought: int
) -> Iterator[str]:
    rows = database.control.execute(ENTRIES, {"account_id": account.id}).fetchall()
    entries = [made for row in rows if (made := entry(row))]
    if (broken := first_broken(account.id, entries)) is not None:
        yield f"the ledger is broken at entry {broken}"
    [funds] = database.control.execute(
        "SELECT balance, held FROM accounts WHERE id = %s", [account.id]
    ).fetchall()
    if funds["balance"] != sum(each.amount for each in entries) or funds["held"]:
        yield f"the funds {funds} are not those of the ledger, {sum(each.amount for each in entries)}"
    own = [row for row in meetings.values() if row["account_id"] == account.id]
    due = sum(row["credits"] - row["given_back"] for row in own if row["status"] in (*LIVE, "ended"))
    due += database.control.execute(_NOTED, [account.id]).fetchall()[0]["credits"]
    if funds["balance"] != bought - due:
        yield f"the balance is {funds['balance']}; {bought} were bought, {due} are due"
    if funds["balance"] < 0:
        yield "the balance is below zero"


def _caps(database: SimulatedDatabase, caps: dict[UUID, int | None]) -> Iterator[str]:
    """No key spends more than its cap on a day in WIB; a refund is of its charge's day."""
    spent: Counter[tuple[UUID, date]] = Counter()
    for row in database.control.execute(_SPENT).fetchall():
        if is_note := row["kind"] == "notulen_charge":
            key_id, day = row["api_key_id"], row["cap_day"]
        else:
            key_id, day = row["sold_to"], row["created_at"].astimezone(WIB).date()
        spent[key_id, day] -= row["amount"]
        cap = caps[key_id]
        if cap is not None and not is_note and spent[key_id, day] > cap:
            yield f"{spent[key_id, day]} credits were spent on {day} with a cap of {cap}"
    for row in database.control.execute("SELECT * FROM cap_usage").fetchall():
        if (row["spent"], row["held"]) != (spent[row["api_key_id"], row["day"]], 0):
            yield f"a cap counts {row['spent']} and {row['held']} on {row['day']}"


def _payment(row: dict[str, Any], there: Money) -> Iterator[str]:
    """Compare a payment with its gateway: money that came is posted once, or in doubt; so is a refund."""
    name, status = f"the payment {row['id']}", row["status"]
    is_posted = status in ("paid", "refunded")
    if (row["topups"], row["receipts"]) != (is_posted, is_posted):
        yield f"{name} is {status} and has {row['topups']} top-ups and {row['receipts']} receipts"
    if is_posted and there.paid != row["amount"] and row["doubt"] is None:
        yield f"{name} of {row['amount']} is {status}, and {there.paid} were paid"
    if there.paid and not is_posted and row["doubt"] is None:
        yield f"{name} is {status}, and {there.paid} were paid"
    if status == "pending" and there.status is not GatewayStatus.PENDING and row["doubt"] is None:
        yield f"{name} is pending, and {there.status} at its gateway"
    if row["refunds"] != (row["taken_back"] is not None):
        yield f"{name} has {row['refunds']} refunds in the ledger"
    for state, at in ((RefundState.REFUSED, row["refused_at"]), (RefundState.FAILED, row["failed_at"])):
        if (there.refund is state) is not bool(at):
            yield f"the refund of {name} is {there.refund}, and {state} since {at}"
    is_due = there.refund not in (RefundState.REFUSED, RefundState.FAILED)
    if there.sent_back != ((is_due and row["owed"]) or 0):
        yield f"of {name} {there.sent_back} were sent back, and {row['owed']} are due"
    if is_posted and (there.is_disputed or not is_due) and (not row["doubt"] or row["doubt_closed_at"]):
        yield f"no operator looks at {name}; its refund is {there.refund}, disputed: {there.is_disputed}"


def _limits(moved: list[Movement]) -> Iterator[str]:
    """No operator, and no account, has more moved by one alone; no proposal is approved by its author."""
    alone: Counter[UUID] = Counter()
    for each in moved:
        if each.approver is None:
            alone[each.mover] += abs(each.amount)
            alone[each.account_id] += abs(each.amount)
        elif each.approver == each.mover:
            yield f"{each.mover} approved {each.amount} alone"
    for who, amount in alone.items():
        if amount > ABOVE:
            yield f"{amount} credits were moved alone, by or for {who}"
