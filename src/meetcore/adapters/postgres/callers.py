"""Authenticate a caller in PostgreSQL, in one round trip with what an operation reads of the account.

The domain judges a key. Sealed values are opened only after that.
"""

from functools import partial
from typing import Any

from meetcore.adapters.postgres import rows
from meetcore.adapters.postgres.meeting_reads import HOST_KEY
from meetcore.adapters.postgres.meetings import MEETING_COLUMNS
from meetcore.ports.cipher import Cipher
from meetcore.ports.queries import AccountSummary, Caller, CallerIncludes

__all__ = ["KEY_COLUMNS", "caller_of", "caller_parameters", "caller_statement"]

KEY_COLUMNS = """
    k.id AS key_id, k.account_id, k.scopes, k.daily_cap, k.created_at AS key_created_at, k.expires_at, k.revoked_at"""

_ACCOUNT_COLUMNS = "a.user_id, a.email, a.full_name, a.balance, a.held, a.suspended_at"

# The key of a digest with its account: what authentication needs, and all that GET /me shows.
_FIND_CALLER = f"""
SELECT {KEY_COLUMNS}, {_ACCOUNT_COLUMNS}
FROM api_keys k JOIN accounts a ON a.id = k.account_id WHERE k.digest = %(digest)s
"""

# The same with what the key spent and holds on a day.
_FIND_WITH_USAGE = f"""
SELECT {KEY_COLUMNS}, {_ACCOUNT_COLUMNS}, u.spent AS usage_spent, u.held AS usage_held
FROM api_keys k JOIN accounts a ON a.id = k.account_id
LEFT JOIN cap_usage u ON u.account_id = k.account_id AND u.api_key_id = k.id AND u.day = %(usage_on)s
WHERE k.digest = %(digest)s
"""

# The same with one of the account's meetings, if it is there.
_FIND_WITH_MEETING = f"""
SELECT {KEY_COLUMNS}, {_ACCOUNT_COLUMNS}, {MEETING_COLUMNS}, {HOST_KEY}
FROM api_keys k JOIN accounts a ON a.id = k.account_id
LEFT JOIN meetings m ON m.account_id = k.account_id AND m.id = %(meeting_id)s
WHERE k.digest = %(digest)s
"""


def caller_statement(includes: CallerIncludes) -> str:
    """The statement that finds a caller and sees this."""
    if includes.meeting_id is not None:
        return _FIND_WITH_MEETING
    return _FIND_CALLER if includes.usage_on is None else _FIND_WITH_USAGE


def caller_parameters(key_digest: bytes, includes: CallerIncludes) -> dict[str, Any]:
    """Its parameters."""
    return {"digest": key_digest, "meeting_id": includes.meeting_id, "usage_on": includes.usage_on}


def caller_of(row: rows.Row, includes: CallerIncludes, cipher: Cipher) -> Caller:
    """The caller of such a row."""
    key = rows.key(row)
    account = AccountSummary(
        row["account_id"], row["user_id"], row["email"], row["full_name"], row["balance"], row["held"],
        row["suspended_at"],
    )  # fmt: skip
    if includes.meeting_id is not None and row["id"] is not None:
        return Caller(key, account, load_meeting=partial(rows.meeting_with_key, row, cipher))
    return Caller(
        key, account, None if includes.usage_on is None else rows.usage(row, key.id, includes.usage_on)
    )
