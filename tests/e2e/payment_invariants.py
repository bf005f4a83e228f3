"""What holds of payments once processes were killed: gateway, ledger and receipts agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from attrs import frozen
from psycopg.rows import dict_row

from tests.support.program import Site

CREDITS = 500
"""Credits of the package that tests buy."""

_PAYMENTS = """
SELECT p.id::text, p.status, p.doubt, p.price + p.tax AS amount, p.credits, r.credits AS taken_back,
    (SELECT count(*) FROM ledger_transfers t WHERE t.operation = 'topup:payment:' || p.id) AS topups,
    (SELECT count(*) FROM receipts c WHERE c.payment_id = p.id) AS receipts,
    (SELECT count(*) FROM ledger_transfers t WHERE t.operation = 'topup_refund:payment:' || p.id) AS refunds
FROM payments p LEFT JOIN payment_refunds r ON r.payment_id = p.id"""


@frozen
class AtGateway:
    """The money of a payment at its gateway: what was paid, if it was, and what was sent back."""

    paid: int | None = None
    sent_back: int = 0


def prove(site: Site, there: Mapping[str, AtGateway]) -> Sequence[dict[str, Any]]:
    """Compare every payment with its gateway; `there` holds those that the gateway knows.

    Each paid payment has one top-up and one receipt, no other one has any; money that arrived is in a paid
    payment or in doubt; a refund is made once, here and there; receipts have no gap.
    """
    with psycopg.connect(site.direct_url, autocommit=True, row_factory=dict_row) as connection:
        rows = connection.execute(_PAYMENTS).fetchall()
        numbers = [row["number"] for row in connection.execute("SELECT number FROM receipts ORDER BY number")]
        totals = connection.execute(
            "SELECT (SELECT sum(balance) FROM accounts) AS credits, "
            "(SELECT count(*) FROM ledger_transfers WHERE kind IN ('topup', 'topup_refund')) AS transfers"
        ).fetchone()
    for row in rows:
        _prove_one(row, there.get(row["id"], AtGateway()))
    assert numbers == list(range(1, len(numbers) + 1))
    assert totals is not None
    topups, refunds = (sum(row[name] for row in rows) for name in ("topups", "refunds"))
    assert totals["transfers"] == topups + refunds
    assert totals["credits"] == CREDITS * topups - sum(row["taken_back"] or 0 for row in rows)
    assert site.cli("credits", "verify")["is_sound"]
    return rows


def _prove_one(row: dict[str, Any], there: AtGateway) -> None:
    is_posted = row["status"] in ("paid", "refunded")
    assert (row["topups"], row["receipts"]) == (is_posted, is_posted), row
    assert not is_posted or there.paid == row["amount"], row
    assert there.paid is None or is_posted or row["doubt"] is not None, row
    is_refunded = row["status"] == "refunded"
    assert (row["refunds"], row["taken_back"] is not None) == (is_refunded, is_refunded), row
    assert there.sent_back == row["amount"] * (row["taken_back"] or 0) // row["credits"], row
