"""Authenticate a caller in PostgreSQL, in one round trip with what an operation reads of the account.

Callers that ask at the same time share a round trip; see `batched_reads`. The domain judges a key. Sealed values are
opened only after that.
"""

from collections.abc import Sequence
from functools import partial

from meetcore.adapters.postgres.batched_reads import BatchedRead
from meetcore.adapters.postgres.columns import Columns, Row, utc
from meetcore.adapters.postgres.meetings.rows import MEETING, meeting_with_key
from meetcore.adapters.postgres.money.rows import FUNDS, usage
from meetcore.adapters.postgres.pool import Pool
from meetcore.adapters.postgres.repository import Reads, load_statements
from meetcore.adapters.postgres.requests.registry import API_KEY
from meetcore.domain.money.views import AccountState
from meetcore.domain.requests.views import AccountSummary, AccountVersion
from meetcore.ports.queries import NO_INCLUDES, Caller, CallerIncludes
from meetcore.ports.runtime import Cipher

SUMMARY = Columns(AccountSummary, "a", "account_", without=("suspension_reason",))

SQL = load_statements(__file__, API_KEY=API_KEY, FUNDS=FUNDS, MEETING=MEETING, SUMMARY=SUMMARY)


class CallerReads(Reads):
    """Authentication in one round trip."""

    def __init__(self, pool: Pool, cipher: Cipher) -> None:
        super().__init__(pool, cipher)
        self._callers = BatchedRead(pool, SQL["find_caller"], SQL["find_callers"], _digests)
        self._with_usage = BatchedRead(pool, SQL["find_with_usage"], SQL["find_all_with_usage"], _days)
        self._with_meeting = BatchedRead(
            pool, SQL["find_with_meeting"], SQL["find_all_with_meeting"], _meeting_ids
        )

    async def find_caller(self, key_digest: bytes, includes: CallerIncludes = NO_INCLUDES) -> Caller | None:
        row = await self._row_of(key_digest, includes)
        return None if row is None else _caller(row, includes, self._cipher)

    async def _row_of(self, digest: bytes, includes: CallerIncludes) -> Row | None:
        if includes.meeting_id is not None:
            return await self._with_meeting.find({"digest": digest, "meeting_id": includes.meeting_id})
        if includes.state_on is not None:
            asked = {"digest": digest, "usage_on": includes.state_on, "key": includes.idempotency_key}
            return await self._one(SQL["find_with_state"], asked)
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
    account = SUMMARY.read(row)
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
