"""The key with which a member tries requests on the dashboard: it ends by itself within the hour."""

from collections.abc import Sequence
from uuid import UUID

from attrs import frozen

from meetcore.domain.members.roles import Action, playground_scopes
from meetcore.domain.members.views import SignedIn, check_member
from meetcore.domain.requests.keys import PLAYGROUND_LASTS, PLAYGROUND_NAME, ApiKey, Scope, is_playground_key
from meetcore.usecases.requests.administration import Administration, MintedKey
from meetcore.usecases.runtime import Runtime


@frozen
class Playground:
    """Makes and finds the key of a member's playground. `is_sandbox`: the video provider is the sandbox."""

    administration: Administration
    runtime: Runtime
    is_sandbox: bool

    def scopes(self, who: SignedIn) -> Sequence[Scope]:
        """Return what a key of this member's playground may do; see `playground_scopes`."""
        return playground_scopes(who.role, is_sandbox=self.is_sandbox)

    async def find_key(self, who: SignedIn) -> ApiKey | None:
        """Return the key of the member's playground, if one works; `None` for operators who look."""
        check_member(who, Action.VIEW_KEYS)
        return next(iter(await self._keys(who)), None)

    async def make_key(self, who: SignedIn, client_address: str | None) -> MintedKey:
        """Make a key and revoke the member's earlier ones, so that at most one stays.

        A crash between the two leaves both for the hour; of two calls at once, each may revoke the other's.
        """
        check_member(who, Action.MANAGE_KEYS)
        acting = self.administration.acting_as(who.origin(client_address))
        minted = await acting.keys.create(
            who.account.id,
            self.scopes(who),
            None,
            self.runtime.now() + PLAYGROUND_LASTS,
            name=PLAYGROUND_NAME,
        )
        for key in await self._keys(who):
            if key.id != minted.key.id:
                await acting.keys.revoke(key.id)
        return minted

    async def _keys(self, who: SignedIn) -> Sequence[ApiKey]:
        member_id: UUID | None = None if who.user is None else who.user.id
        keys, now = await self.administration.registry.list_keys(who.account.id), self.runtime.now()
        return [key for key in keys if is_playground_key(key, member_id, now)]
