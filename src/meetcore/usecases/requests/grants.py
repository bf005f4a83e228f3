"""OAuth: clients, and their grants, asked for, allowed or refused by a member, exchanged and refreshed.

A client is registered, or known by the document whose URL is its id; what strangers do is limited.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from attrs import evolve, field, frozen

from meetcore.domain.errors import require_record
from meetcore.domain.meetings.schedule import utc_text
from meetcore.domain.members.audit import SERVICE, ActionOrigin
from meetcore.domain.members.roles import Action
from meetcore.domain.members.views import SignedIn, check_member
from meetcore.domain.requests import grants, keys
from meetcore.domain.requests.accounts import AccountStatus, status_of
from meetcore.ports.requests import RateCounters
from meetcore.ports.store import Store, Transaction
from meetcore.ports.webhook_sender import DocumentFetcher, DocumentUnavailable
from meetcore.usecases.members.audit import count_hit, record_action
from meetcore.usecases.requests.administration import add_key
from meetcore.usecases.requests.erasure import check_role, lock_unerased
from meetcore.usecases.runtime import Runtime


@frozen
class OAuthClients:
    """Finds and keeps clients; without `documents` only those that registered are known."""

    store: Store
    counters: RateCounters
    runtime: Runtime
    documents: DocumentFetcher | None = None

    async def count(self, act: grants.Act, client_address: str | None) -> None:
        """Count an act, the address first: a refused one uses up nothing of all. Raises `RateLimited`."""
        from_address, in_all = act.value
        await self._count(grants.counter(act, client_address), from_address)
        await self._count(grants.counter_of_all(act), in_all)

    async def _count(self, counter: UUID, limit: int) -> None:
        now = self.runtime.now()
        hits = await count_hit(self.counters, counter, now)
        grants.check_count(hits, limit, now)

    async def register(self, client_id: str, name: object, redirect_uris: object) -> grants.OAuthClient:
        """Keep a client that registers (RFC 7591); raise `InvalidClient`."""
        client = grants.new_client(client_id, name, redirect_uris, self.runtime.now())
        async with self.store.at_once() as tx:
            await tx.grants.save_client(client)
        return client

    async def find(self, client_id: str) -> grants.OAuthClient | None:
        """Return a client that is known already."""
        if not client_id.isprintable():
            return None
        async with self.store.at_once() as tx:
            return await tx.grants.find_client(client_id)

    async def find_or_fetch(self, client_id: str, client_address: str | None) -> grants.OAuthClient | None:
        """Return a client, whose document is fetched if it has one and is not known or its copy is old.

        Raises `RateLimited` where a client address has had too many documents fetched.
        """
        known, url, now = await self.find(client_id), grants.document_url(client_id), self.runtime.now()
        if url is None or self.documents is None:
            return known
        if known and known.fetched_at and now < known.fetched_at + grants.DOCUMENT_FOR:
            return known
        await self.count(grants.Act.FETCH, client_address)
        try:
            body = await self.documents.fetch(url, grants.counter(grants.Act.FETCH, client_address))
            client = grants.read_document(client_id, body, now)
        except (DocumentUnavailable, grants.InvalidClient):
            return None
        async with self.store.at_once() as tx:
            await tx.grants.save_client(client)
        return client


CONSENT_PAGE: Final = "/dashboard/connect"


@frozen
class IssuedTokens:
    """New tokens of a grant: the only moment at which they can be read."""

    key: keys.ApiKey
    access: str = field(repr=False)
    refresh: str = field(repr=False)
    expires_in: timedelta


@frozen
class Grants:
    """Grants of an issuer, whose URL answers name, so that a client cannot mix it up (RFC 9207)."""

    store: Store
    clients: OAuthClients
    runtime: Runtime
    key_prefix: str
    issuer: str

    async def ask(
        self, client_id: str, redirect_uri: str, state: str | None, challenge: str,
        scopes: Sequence[keys.Scope],
    ) -> str:  # fmt: skip
        """Keep a checked request for a grant; return the path of the page on which a member answers it."""
        now = self.runtime.now()
        asked = grants.Authorization(
            self.runtime.new_id(now), client_id, redirect_uri, state, challenge, tuple(scopes),
            now + grants.ANSWER_WITHIN,
        )  # fmt: skip
        async with self.store.at_once() as tx:
            await tx.grants.add_authorization(asked)
        return f"{CONSENT_PAGE}/{asked.id}"

    async def find_open(self, who: SignedIn, id: UUID) -> tuple[grants.Authorization, grants.OAuthClient]:
        """Return a request that waits for an answer, and its client. Raises as `check_open`."""
        check_member(who, Action.MANAGE_KEYS)
        async with self.store.at_once() as tx:
            found = await tx.grants.find_authorization(id)
        asked = grants.check_open(found, self.runtime.now())
        return asked, require_record(await self.clients.find(asked.client_id), "client")

    async def allow(
        self, who: SignedIn, id: UUID, scopes: Sequence[keys.Scope], daily_cap: int | None,
        expires_at: datetime | None, client_address: str | None,
    ) -> str:  # fmt: skip
        """Give a grant; return the URL that brings its code to the client.

        The key works from the exchange of the code on. Raises as `check_open`, and `Conflict` for an erased
        account, `Unprocessable` where `check_room` does.
        """
        _, client = await self.find_open(who, id)
        now, origin = self.runtime.now(), who.origin(client_address)
        keys.check_expiry(expires_at, now)
        code, code_end = self._mint("code"), now + grants.CODE_FOR
        key = keys.ApiKey(
            self.runtime.new_id(now), who.account.id, tuple(scopes), daily_cap, now, code_end,
            name=client.name, created_by=None if who.user is None else who.user.id, client_id=client.id,
        )  # fmt: skip
        async with self.store.begin() as tx:
            await lock_unerased(tx, who.account.id)
            await check_role(tx, key.account_id, key.created_by, Action.MANAGE_KEYS)
            asked = grants.check_open(await tx.grants.load_authorization(id), now)
            await add_key(tx, key, self._mint(keys.ACCESS_TOKEN), now)
            allowed = evolve(asked, key_id=key.id, expires_at=code_end, key_expires_at=expires_at)
            await tx.grants.allow(allowed, keys.digest(code), now)
            await self._record(
                tx, now, origin, "grant.given", key, name=client.name, client=client.id[:255],
                scopes=" ".join(scopes), daily_cap=daily_cap,
                expires_at=None if expires_at is None else utc_text(expires_at),
            )  # fmt: skip
        return grants.redirection(asked.redirect_uri, code=code, state=asked.state, iss=self.issuer)

    async def refuse(self, who: SignedIn, id: UUID, client_address: str | None) -> str:
        """Refuse a grant; return the URL that tells the client. Raises as `check_open`."""
        _, client = await self.find_open(who, id)
        now = self.runtime.now()
        async with self.store.begin() as tx:
            asked = grants.check_open(await tx.grants.load_authorization(id), now)
            await tx.grants.delete_authorization(id)
            await record_action(
                tx, self.runtime, now, who.origin(client_address), "grant.refused", who.account.id, id,
                name=client.name, client=client.id[:255],
            )  # fmt: skip
        return grants.redirection(
            asked.redirect_uri, error="access_denied", state=asked.state, iss=self.issuer
        )

    async def find_code(self, client_id: str, code: str) -> grants.Authorization | None:
        """Return what a client's code was given for; one that was used revokes its grant."""
        async with self.store.at_once() as tx:
            found = await tx.grants.find_code(keys.digest(code))
        if found is None or found.client_id != client_id or found.key_id is None:
            return None
        if found.used_at is not None:
            await self._revoke(found.key_id, "code")
            return None
        return found if self.runtime.now() < found.expires_at else None

    async def exchange_code(self, found: grants.Authorization) -> IssuedTokens | None:
        """Use a code up for the first tokens of its grant; `None` if it was used or the grant has ended."""
        assert found.key_id is not None
        async with self.store.begin() as tx:
            key, now = await tx.registry.load_key(found.key_id), self.runtime.now()
            if not await self._can_issue(tx, key, now):
                return None
            if await tx.grants.use_code(found.id, now):
                return await self._issue(tx, key, found.key_expires_at, now)
        await self._revoke(found.key_id, "code")
        return None

    async def find_refreshed(self, client_id: str, token: str) -> keys.ApiKey | None:
        """Return the grant of a client's refresh token; one that was used revokes its grant."""
        async with self.store.begin() as tx:
            found = await tx.grants.find_refresh_token(keys.digest(token))
            if found is None or found.client_id != client_id:
                return None
            if found.used_at is None:
                return await tx.registry.load_key(found.key_id)
        await self._revoke(found.key_id, "refresh token")
        return None

    async def refresh(self, token: str) -> IssuedTokens | None:
        """Use a refresh token up for new tokens; `None` where it was used or the grant has ended.

        While the account is suspended it stays as it is.
        """
        async with self.store.begin() as tx:
            found = await tx.grants.find_refresh_token(keys.digest(token))
            if found is None:
                return None
            key, now = await tx.registry.load_key(found.key_id), self.runtime.now()
            if not await self._can_issue(tx, key, now):
                return None
            if await tx.grants.use_refresh_token(keys.digest(token), now):
                return await self._issue(tx, key, key.expires_at, now)
        await self._revoke(found.key_id, "refresh token")
        return None

    async def purge(self) -> None:
        """Delete requests, used tokens and clients that are past their time, a portion at a time."""
        purged = True
        while purged:
            async with self.store.at_once() as tx:
                purged = bool(await tx.grants.purge(self.runtime.now()))

    @staticmethod
    async def _can_issue(tx: Transaction, key: keys.ApiKey, now: datetime) -> bool:
        account = await tx.registry.load_account(key.account_id)
        return status_of(account.suspended_at) is AccountStatus.ACTIVE and keys.is_usable(key, now)

    async def _issue(
        self, tx: Transaction, key: keys.ApiKey, expires_at: datetime | None, now: datetime
    ) -> IssuedTokens:
        end = now + grants.ACCESS_FOR
        end = end if expires_at is None else min(end, expires_at)
        issued = evolve(key, expires_at=expires_at, token_expires_at=end)
        access, refresh = self._mint(keys.ACCESS_TOKEN), self._mint(keys.REFRESH_TOKEN)
        await tx.grants.issue(issued, keys.digest(access), keys.digest(refresh), now)
        return IssuedTokens(issued, access, refresh, end - now)

    async def _revoke(self, key_id: UUID, reason: str) -> None:
        """Revoke a grant whose code or refresh token was used twice (RFC 9700, 4.14.2)."""
        async with self.store.begin() as tx:
            before, now = await tx.registry.load_key(key_id), self.runtime.now()
            if before.revoked_at is None:
                await tx.registry.revoke_key(key_id, now)
                await self._record(tx, now, SERVICE, "grant.revoked", before, reason=f"{reason} used twice")

    def _mint(self, kind: str) -> str:
        return keys.mint(self.key_prefix, self.runtime.entropy.token_bytes(keys.SECRET_BYTES), kind)

    async def _record(
        self, tx: Transaction, now: datetime, origin: ActionOrigin, action: str, key: keys.ApiKey,
        **details: str | int | None,
    ) -> None:  # fmt: skip
        await record_action(tx, self.runtime, now, origin, action, key.account_id, key.id, **details)
