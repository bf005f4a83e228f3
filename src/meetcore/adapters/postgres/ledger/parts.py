"""Money's columns, and the parts of statements that move it.

A transfer's legs are two rows under one number; the system's leg needs no running balance, because
the system's books are summed, not spent from. `locked` is an account under its lock; `guard` is the account where a
statement's condition holds, and nothing where it does not; what is written under the account's lock needs none.

Rows that are written are named by parameters, and `guard` is only asked whether it is there: joined with it, a table
that was empty when the statement was planned would be read through for ever.
"""

from datetime import date
from uuid import UUID

from meetcore.adapters.postgres.columns import Columns, Row
from meetcore.domain.money.holds import CapUsage, Hold
from meetcore.domain.money.ledger import Entry, Funds, Transfer

FUNDS = Columns(Funds, "a", "funds_", renamed={"account_id": "id"})
# What no posting changes of an account: the threshold is the registry's.
_UNCHANGED = ("account_id", "low_threshold")
FUNDS_AFTER = Columns(Funds, "w", "", without=_UNCHANGED)
_FUNDS_AFTER_PARAMETERS = Columns(Funds, "a", "funds_", without=_UNCHANGED)
TRANSFER = Columns(Transfer, "t", "transfer_", nested={"reference": "reference_"})
ENTRY = Columns(Entry, "e", "entry_", renamed={"key_id": "chain_key"}, without=("transfer",))
# The title of the meeting that a transfer is for, or whose notes it is for; null where that is not there.
TITLE = """CASE WHEN t.reference_id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN CASE t.reference_type
        WHEN 'meeting' THEN (SELECT title FROM meetings
            WHERE account_id = t.account_id AND id = t.reference_id::uuid)
        WHEN 'note' THEN (SELECT m.title FROM notes n
            JOIN meetings m ON m.account_id = n.account_id AND m.id = n.meeting_id
            WHERE n.account_id = t.account_id AND n.id = t.reference_id::uuid)
        END END"""
HOLD = Columns(Hold, "hold", "hold_", nested={"reference": "reference_"})
# Usage is stored once for each cap, under the key that it is counted under.
USAGE = Columns(CapUsage, "u", "usage_", renamed={"cap_key_id": "api_key_id"}, without=("api_key_id",))

# Takes the account's lock and reads its funds. Rows of other tables in the same statement come
# from a snapshot taken before the lock was waited for: `seen_version` shows it.
LOCK_ACCOUNT = f"""
    locked AS MATERIALIZED (
        SELECT a.version, {FUNDS.select} FROM accounts a WHERE a.id = %(account_id)s FOR NO KEY UPDATE
    )"""

# Appends a transfer, and its customer's and its system's leg under one number.
APPEND_ENTRY = f"""
    transfer AS (
        INSERT INTO ledger_transfers (account_id, {TRANSFER.names})
        SELECT account_id, {TRANSFER.values} FROM guard
    ), entry AS (
        INSERT INTO ledger_entries (account_id, number, book, transfer_id, amount, balance_after, at, hash, chain_key)
        SELECT account_id, %(entry_number)s, leg.book, %(transfer_id)s, leg.amount, leg.balance_after, %(entry_at)s,
            leg.hash, leg.chain_key
        FROM guard CROSS JOIN (VALUES
            ('customer', %(entry_amount)s::bigint, %(entry_balance_after)s::bigint, %(entry_hash)s::bytea,
                %(entry_chain_key)s::bytea),
            (%(system_book)s, -%(entry_amount)s::bigint, NULL, NULL, NULL)
        ) AS leg (book, amount, balance_after, hash, chain_key)
    )"""

# Writes the funds that were decided on and the version, so that waiting readers read again.
WRITE_FUNDS = f"""
    account AS (
        UPDATE accounts SET ({FUNDS_AFTER.names}) = (
            {_FUNDS_AFTER_PARAMETERS.values}
        ), version = version + 1
        WHERE id = %(account_id)s AND EXISTS (SELECT FROM guard)
    )"""

# Holds credits, and counts them in the cap's usage of its day.
OPEN_HOLD = f"""
    hold AS (
        INSERT INTO ledger_holds (account_id, {HOLD.names}) SELECT account_id, {HOLD.values} FROM guard
    ), usage AS (
        INSERT INTO cap_usage (account_id, {USAGE.names}) SELECT account_id, {USAGE.values} FROM guard
        ON CONFLICT (account_id, api_key_id, day) DO UPDATE SET spent = EXCLUDED.spent, held = EXCLUDED.held
    )"""

WRITE_USAGE = """
    usage AS (
        UPDATE cap_usage SET spent = %(usage_spent)s, held = %(usage_held)s
        WHERE account_id = %(account_id)s AND api_key_id = %(usage_api_key_id)s AND day = %(usage_day)s
            AND EXISTS (SELECT FROM guard)
    )"""

# The end of a hold, and the cap's usage after it.
CLOSE_HOLD = f"""
    closed AS (
        DELETE FROM ledger_holds
        WHERE account_id = %(account_id)s AND id = %(hold_id)s AND EXISTS (SELECT FROM guard)
    ), {WRITE_USAGE}"""


def entry(row: Row) -> Entry | None:
    """A customer's entry with its transfer, if the row has one."""
    transfer = TRANSFER.find(row)
    if transfer is None:
        return None
    return ENTRY.read(row | {"entry_chain_key": row["entry_chain_key"] or b""}, transfer=transfer)


def entry_parameters(entry: Entry) -> Row:
    """The parameters of `APPEND_ENTRY`."""
    return (
        TRANSFER.parameters(entry.transfer)
        | ENTRY.parameters(entry)
        | {"entry_chain_key": entry.key_id or None, "system_book": system_book(entry)}
    )


def system_book(entry: Entry) -> str:
    """The book of the transfer's other leg."""
    transfer = entry.transfer
    return (transfer.source if transfer.signed_amount > 0 else transfer.destination).value


def usage(row: Row, api_key_id: UUID, day: date) -> CapUsage:
    """The usage of a key's cap on a day; a day without a row is unused."""
    return CapUsage(
        api_key_id,
        day,
        row["usage_spent"] or 0,
        row["usage_held"] or 0,
        row["key_first_key_id"] or api_key_id,
    )
