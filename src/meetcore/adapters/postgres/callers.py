"""Authenticate a caller in PostgreSQL, in one round trip with what an operation reads of the account.

Callers that ask at the same time share a round trip; see `batched_reads`. The domain judges a key. Sealed values are
opened only after that.
"""

from collections.abc import Sequence
from functools import partial

from meetcore.adapters.postgres.batched_reads import BatchedRead
from meetcore.adapters.postgres.columns import Columns, Row, utc
from meetcore.adapters.postgres.ledger.parts import FUNDS, usage
from meetcore.adapters.postgres.meetings.rows import MEETING_COLUMNS, meeting_with_key
from meetcore.adapters.postgres.meetings.shown import HOST_KEY
from meetcore.adapters.postgres.pool import Pool
from meetcore.adapters.postgres.repository import Reads
from meetcore.domain.requests.keys import ApiKey
from meetcore.ports.account_state import AccountState
from meetcore.ports.cipher import Cipher
from meetcore.ports.queries import NO_INCLUDES, AccountSummary, AccountVersion, Caller, CallerIncludes

API_KEY = Columns(ApiKey, "k", "key_")

_ACCOUNT = Columns(AccountSummary, "a", "account_")

# What the account was when it was read: a standby that has this version has all that the caller may know of.
_VERSION = "a.version AS account_version, clock_timestamp() AS read_at"

# The key of a digest with its account: what authentication needs, and all that GET /me shows.
_FIND_CALLER = f"""
SELECT {API_KEY.select}, {_ACCOUNT.select}, {_VERSION}
FROM api_keys k JOIN accounts a ON a.id = k.account_id WHERE k.digest = %(digest)s
"""

# The same for several callers.
_FIND_CALLERS = f"""
SELECT q.number, {API_KEY.select}, {_ACCOUNT.select}, {_VERSION}
FROM unnest(%(digests)s::bytea[]) WITH ORDINALITY AS q (digest, number)
JOIN api_keys k ON k.digest = q.digest JOIN accounts a ON a.id = k.account_id
"""

_USAGE_OF_KEY = """
LEFT JOIN cap_usage u ON u.account_id = k.account_id AND u.api_key_id = COALESCE(k.first_key_id, k.id)
    AND u.day = """

# One caller with the usage of the key's cap on a day.
_FIND_WITH_USAGE = f"""
SELECT {API_KEY.select}, {_ACCOUNT.select}, {_VERSION}, u.spent AS usage_spent, u.held AS usage_held
FROM api_keys k JOIN accounts a ON a.id = k.account_id{_USAGE_OF_KEY}%(usage_on)s
WHERE k.digest = %(digest)s
"""

# The same for several callers, each with a day of its own.
_FIND_ALL_WITH_USAGE = f"""
SELECT q.number, {API_KEY.select}, {_ACCOUNT.select}, {_VERSION}, u.spent AS usage_spent, u.held AS usage_held
FROM unnest(%(digests)s::bytea[], %(days)s::date[]) WITH ORDINALITY AS q (digest, day, number)
JOIN api_keys k ON k.digest = q.digest JOIN accounts a ON a.id = k.account_id{_USAGE_OF_KEY}q.day
"""

# One caller with the account's funds and their version, for a decision that is tried without a lock.
_FIND_WITH_STATE = f"""
SELECT {API_KEY.select}, {_ACCOUNT.select}, {FUNDS.select}, {_VERSION}, u.spent AS usage_spent, u.held AS usage_held,
    EXISTS (SELECT FROM idempotency_keys i WHERE i.account_id = k.account_id AND i.key = %(key)s::text) AS is_key_known
FROM api_keys k JOIN accounts a ON a.id = k.account_id{_USAGE_OF_KEY}%(usage_on)s
WHERE k.digest = %(digest)s
"""

# One caller with one of the account's meetings, if it is there.
_FIND_WITH_MEETING = f"""
SELECT {MEETING_COLUMNS}, {HOST_KEY}, {API_KEY.select}, {_ACCOUNT.select}, {_VERSION}
FROM api_keys k JOIN accounts a ON a.id = k.account_id
LEFT JOIN meetings m ON m.account_id = k.account_id AND m.id = %(meeting_id)s
WHERE k.digest = %(digest)s
"""

# The same for several callers, each with a meeting of its own account.
_FIND_ALL_WITH_MEETING = f"""
SELECT q.number, {MEETING_COLUMNS}, {HOST_KEY}, {API_KEY.select}, {_ACCOUNT.select}, {_VERSION}
FROM unnest(%(digests)s::bytea[], %(meeting_ids)s::uuid[]) WITH ORDINALITY AS q (digest, meeting_id, number)
JOIN api_keys k ON k.digest = q.digest JOIN accounts a ON a.id = k.account_id
LEFT JOIN meetings m ON m.account_id = k.account_id AND m.id = q.meeting_id
"""


class CallerReads(Reads):
    """Authentication in one round trip."""

    def __init__(self, pool: Pool, cipher: Cipher) -> None:
        super().__init__(pool, cipher)
        self._callers = BatchedRead(pool, _FIND_CALLER, _FIND_CALLERS, _digests)
        self._with_usage = BatchedRead(pool, _FIND_WITH_USAGE, _FIND_ALL_WITH_USAGE, _days)
        self._with_meeting = BatchedRead(pool, _FIND_WITH_MEETING, _FIND_ALL_WITH_MEETING, _meeting_ids)

    async def find_caller(self, key_digest: bytes, includes: CallerIncludes = NO_INCLUDES) -> Caller | None:
        row = await self._row_of(key_digest, includes)
        return None if row is None else _caller(row, includes, self._cipher)

    async def _row_of(self, digest: bytes, includes: CallerIncludes) -> Row | None:
        if includes.meeting_id is not None:
            return await self._with_meeting.find({"digest": digest, "meeting_id": includes.meeting_id})
        if includes.state_on is not None:
            asked = {"digest": digest, "usage_on": includes.state_on, "key": includes.idempotency_key}
            return await self._one(_FIND_WITH_STATE, asked)
        if includes.usage_on is not None:
            return await self._with_usage.find({"digest": digest, "usage_on": includes.usage_on})
        return await self._callers.find({"digest": digest})


# Arrays as the server reads them from a text: the driver takes several times as long for a list.
def _digests(asked: Sequence[Row]) -> Row:
    return {"digests": "{" + ",".join([f'"\\\\x{each["digest"].hex()}"' for each in asked]) + "}"}


def _days(asked: Sequence[Row]) -> Row:
    return _digests(asked) | {"days": "{" + ",".join([each["usage_on"].isoformat() for each in asked]) + "}"}


def _meeting_ids(asked: Sequence[Row]) -> Row:
    return _digests(asked) | {
        "meeting_ids": "{" + ",".join([str(each["meeting_id"]) for each in asked]) + "}"
    }


def _caller(row: Row, includes: CallerIncludes, cipher: Cipher) -> Caller:
    key = API_KEY.read(row)
    account = _ACCOUNT.read(row)
    version = AccountVersion(account.id, row["account_version"], utc(row["read_at"]))
    if includes.meeting_id is not None and row["meeting_id"] is not None:
        return Caller(key, account, load_meeting=partial(meeting_with_key, row, cipher), version=version)
    if includes.state_on is not None:
        if row["is_key_known"]:
            return Caller(key, account, version=version)
        used = usage(row, key.id, includes.state_on)
        state = AccountState(row["account_version"], FUNDS.read(row), used, key.daily_cap)
        return Caller(key, account, state=state, version=version)
    spent = None if includes.usage_on is None else usage(row, key.id, includes.usage_on)
    return Caller(key, account, spent, version=version)
