"""OAuth clients, requests for grants, and the tokens of grants."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from meetcore.adapters.postgres.columns import Columns
from meetcore.adapters.postgres.repository import Repository, load_statements
from meetcore.adapters.postgres.requests.registry import API_KEY
from meetcore.domain.requests import grants
from meetcore.domain.requests.keys import ApiKey

CLIENT = Columns(grants.OAuthClient, "c", "client_")
AUTHORIZATION = Columns(grants.Authorization, "o", "authorization_")
TOKEN = Columns(grants.RefreshToken, "t", "")

SQL = load_statements(__file__, API_KEY=API_KEY, AUTHORIZATION=AUTHORIZATION, CLIENT=CLIENT)


class PostgresGrantRepository(Repository):
    """Clients, authorizations and tokens."""

    async def find_client(self, client_id: str) -> grants.OAuthClient | None:
        return await self._find(CLIENT, SQL["find_client"], client_id=client_id)

    async def save_client(self, client: grants.OAuthClient) -> None:
        await self._run(SQL["save_client"], CLIENT.parameters(client))

    async def add_authorization(self, authorization: grants.Authorization) -> None:
        await self._run(SQL["add_authorization"], AUTHORIZATION.parameters(authorization))

    async def find_authorization(self, id: UUID) -> grants.Authorization | None:
        return await self._find(AUTHORIZATION, SQL["find_authorization"], id=id)

    async def load_authorization(self, id: UUID) -> grants.Authorization | None:
        return await self._find(AUTHORIZATION, SQL["load_authorization"], id=id)

    async def allow(self, authorization: grants.Authorization, code_digest: bytes, at: datetime) -> None:
        await self._run(SQL["allow"], AUTHORIZATION.parameters(authorization), digest=code_digest, at=at)

    async def delete_authorization(self, id: UUID) -> None:
        await self._run(SQL["delete_authorization"], id=id)

    async def find_code(self, code_digest: bytes) -> grants.Authorization | None:
        return await self._find(AUTHORIZATION, SQL["find_code"], digest=code_digest)

    async def use_code(self, id: UUID, at: datetime) -> bool:
        return await self._changed(SQL["use_code"], id=id, at=at)

    async def find_refresh_token(self, token_digest: bytes) -> grants.RefreshToken | None:
        return await self._find(TOKEN, SQL["find_refresh_token"], digest=token_digest)

    async def use_refresh_token(self, token_digest: bytes, at: datetime) -> bool:
        return await self._changed(SQL["use_refresh_token"], digest=token_digest, at=at)

    async def issue(self, key: ApiKey, access_digest: bytes, refresh_digest: bytes, at: datetime) -> None:
        parameters = API_KEY.parameters(key) | {"digest": access_digest, "refresh_digest": refresh_digest}
        await self._run(SQL["issue"], parameters, at=at)

    async def revoke_of_member(self, account_id: UUID, user_id: UUID, at: datetime) -> Sequence[ApiKey]:
        return await self._list(
            API_KEY, SQL["revoke_of_member"], account_id=account_id, user_id=user_id, at=at
        )

    async def purge(self, now: datetime) -> int:
        before = {
            "answered_before": now - grants.ANSWERED_KEPT_FOR,
            "used_before": now - grants.USED_TOKENS_KEPT_FOR,
            "made_before": now - grants.UNUSED_CLIENTS_KEPT_FOR,
            "clients_before": now - grants.CLIENTS_KEPT_FOR,
        }
        return await self._due(SQL["purge"], before, now=now)
