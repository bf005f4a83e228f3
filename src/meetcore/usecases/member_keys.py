"""A member's work with the account's API keys: each step checks the role, and whose key it is."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from attrs import frozen

from meetcore.domain.errors import NotFound
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.members.roles import Action, check_allowed
from meetcore.domain.requests.keys import ApiKey, Scope
from meetcore.ports.dashboard_queries import DashboardQueries, KeyUse
from meetcore.ports.member_queries import SignedIn
from meetcore.usecases.administration import Administration, MintedKey
from meetcore.usecases.runtime import Runtime


@frozen
class MemberKeys:
    """Keys as a member sees and changes them; `client_address` goes into the audit log.

    Each raises `ActionNotAllowed` where the role does not allow it, and `NotFound` for another account's key.
    """

    administration: Administration
    queries: DashboardQueries
    runtime: Runtime

    async def list_use(self, who: SignedIn) -> Sequence[KeyUse]:
        """Every key, the newest first, with what counts against its cap today."""
        check_allowed(who.role, Action.VIEW_KEYS)
        return await self.queries.list_key_use(who.account.id, cap_day(self.runtime.now()))

    async def create(
        self, who: SignedIn, client_address: str | None, name: str, scopes: Sequence[Scope],
        daily_cap: int | None, expires_at: datetime | None, new_id: UUID | None,
    ) -> MintedKey:  # fmt: skip
        """Make a key; see `Administration.create_key`."""
        check_allowed(who.role, Action.MANAGE_KEYS)
        acting = self.administration.acting_as(who.origin(client_address))
        return await acting.create_key(
            who.account.id, scopes, daily_cap, expires_at, name=name, new_id=new_id
        )

    async def set_daily_cap(
        self, who: SignedIn, client_address: str | None, key_id: UUID, daily_cap: int | None
    ) -> ApiKey:
        """Change the cap of a key and of those that share it; `None` removes it (rule 5/7)."""
        check_allowed(who.role, Action.MANAGE_CAPS)
        await self._check_own(who, key_id)
        return await self.administration.acting_as(who.origin(client_address)).set_daily_cap(
            key_id, daily_cap
        )

    async def roll(
        self, who: SignedIn, client_address: str | None, key_id: UUID, overlap_h: int, new_id: UUID | None
    ) -> MintedKey:
        """Put a new key in the place of another; see `Administration.roll_key`."""
        check_allowed(who.role, Action.MANAGE_KEYS)
        await self._check_own(who, key_id)
        acting = self.administration.acting_as(who.origin(client_address))
        minted, _old = await acting.roll_key(key_id, overlap_h, new_id)
        return minted

    async def revoke(self, who: SignedIn, client_address: str | None, key_id: UUID) -> ApiKey:
        """Revoke a key at once."""
        check_allowed(who.role, Action.MANAGE_KEYS)
        await self._check_own(who, key_id)
        return await self.administration.acting_as(who.origin(client_address)).revoke_key(key_id)

    async def _check_own(self, who: SignedIn, key_id: UUID) -> None:
        keys = await self.administration.registry.list_keys(who.account.id)
        if key_id not in {key.id for key in keys}:
            raise NotFound("No key with this id.")
