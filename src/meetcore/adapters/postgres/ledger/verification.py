"""How far the periodic verification of the ledger is, in the one row of its table."""

from datetime import datetime

from meetcore.adapters.postgres.columns import Row
from meetcore.adapters.postgres.pool import Pool, translated
from meetcore.ports.lease import Lease
from meetcore.ports.ledger_verification import VerificationRun

# Takes the run that is due, or begins one.
_CLAIM = """
UPDATE ledger_verification SET lease_token = %(token)s, started_at = COALESCE(started_at, %(at)s),
    due_at = clock_timestamp() + %(lease_s)s * interval '1 second'
WHERE due_at <= clock_timestamp() RETURNING started_at, after_account, accounts, entries, findings
"""

# Keeps how far a run is, for the holder of its claim only.
_SAVE = """
UPDATE ledger_verification SET lease_token = NULL, due_at = clock_timestamp() + %(seconds)s * interval '1 second',
    after_account = %(after_account)s, accounts = %(accounts)s, entries = %(entries)s,
    findings = %(findings)s, is_sound = is_sound AND %(is_sound)s
WHERE lease_token = %(token)s
"""

# Keeps a claim, for its holder only.
_RENEW = """
UPDATE ledger_verification SET due_at = clock_timestamp() + %(seconds)s * interval '1 second'
WHERE lease_token = %(token)s
"""

# Ends the run that has findings, and has the next one begin.
_END_UNSOUND = """
UPDATE ledger_verification SET lease_token = NULL, due_at = clock_timestamp(),
    started_at = NULL, after_account = NULL, accounts = 0, entries = 0, findings = '{}',
    verified_at = GREATEST(verified_at, %(at)s), is_sound = false
WHERE findings <> '{}'
"""

# Keeps the result of a verification beside the runs; a sound one unless there are findings or a result of a later instant.
_KEEP_RESULT = """
UPDATE ledger_verification SET verified_at = GREATEST(verified_at, %(at)s), is_sound = %(is_sound)s
WHERE NOT %(is_sound)s OR (findings = '{}' AND COALESCE(verified_at <= %(at)s, true))
"""

# Keeps the result of a run and forgets its progress, for the holder of its claim only; a sound result unless there is
# one of an instant after its beginning.
_FINISH = """
UPDATE ledger_verification SET lease_token = NULL, due_at = clock_timestamp() + %(seconds)s * interval '1 second',
    started_at = NULL, after_account = NULL, accounts = 0, entries = 0, findings = '{}',
    verified_at = CASE WHEN %(is_sound)s AND verified_at > started_at THEN verified_at ELSE %(at)s END,
    is_sound = CASE WHEN %(is_sound)s AND verified_at > started_at THEN is_sound ELSE %(is_sound)s END
WHERE lease_token = %(token)s
"""


class PostgresVerificationLog:
    """Keeps one run, and what came of the last one."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def claim(self, lease: Lease, at: datetime) -> VerificationRun | None:
        parameters = {"token": lease.token, "lease_s": lease.seconds, "at": at}
        with translated():
            async with self._pool.connection() as connection:
                row = await (await connection.execute(_CLAIM, parameters)).fetchone()
        if row is None:
            return None
        return VerificationRun(
            lease.token, row["started_at"], row["after_account"], row["accounts"], row["entries"],
            tuple(row["findings"]),
        )  # fmt: skip

    async def renew(self, run: VerificationRun, seconds: float) -> bool:
        return await self._changed(_RENEW, {"token": run.token, "seconds": seconds})

    async def save(self, run: VerificationRun, wait_s: float) -> bool:
        progress = {
            "after_account": run.after_account,
            "accounts": run.accounts,
            "entries": run.entries,
            "findings": list(run.findings),
        }
        return await self._changed(_SAVE, _of(run, wait_s) | progress)

    async def finish(self, run: VerificationRun, at: datetime, next_s: float) -> bool:
        return await self._changed(_FINISH, _of(run, next_s) | {"at": at})

    async def end_unsound_run(self, at: datetime) -> None:
        await self._changed(_END_UNSOUND, {"at": at})

    async def keep_result(self, at: datetime, *, is_sound: bool) -> None:
        await self._changed(_KEEP_RESULT, {"at": at, "is_sound": is_sound})

    async def _changed(self, query: str, parameters: Row) -> bool:
        with translated():
            async with self._pool.connection() as connection:
                return (await connection.execute(query, parameters)).rowcount == 1


def _of(run: VerificationRun, seconds: float) -> Row:
    return {"token": run.token, "seconds": seconds, "is_sound": not run.findings}
