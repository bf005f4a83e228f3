"""OAuth clients: registered, or known by the document whose URL is their id; limits on what strangers do."""

from uuid import UUID

from attrs import frozen

from meetcore.domain.members.sign_in import request_window
from meetcore.domain.requests import grants
from meetcore.domain.requests.rate_window import OperationClass
from meetcore.ports.requests import RateCounters
from meetcore.ports.store import Store
from meetcore.ports.webhook_sender import DocumentFetcher, DocumentUnavailable
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
        hits = await self.counters.hit(counter, OperationClass.WRITE, request_window(now))
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
