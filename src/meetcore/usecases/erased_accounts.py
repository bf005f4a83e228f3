"""Refuse what would give an erased account something new."""

from uuid import UUID

from meetcore.domain.errors import Conflict
from meetcore.ports.store import Transaction


async def lock_unerased(tx: Transaction, account_id: UUID) -> None:
    """Take an account's lock.

    Raises:
        Conflict: the account was erased.
        NotFound: no such account.
    """
    await tx.lock_account(account_id)
    if await tx.erasures.is_requested(account_id):
        raise Conflict("It was erased, and nothing brings it back: open another one.", account_id)
