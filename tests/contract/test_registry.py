"""The operator's records in every store."""

import os

import pytest

from meetcore.domain.requests.keys import DEFAULT_NAME, ApiKey
from meetcore.testing.contracts import RegistryContract
from meetcore.testing.contracts.transactions import AT, new_id, open_account
from tests.support.postgres_rig import PostgresRig


@pytest.mark.spec("5/7")
class TestRegistry(RegistryContract):
    """In memory and in Postgres."""


async def test_a_key_of_an_earlier_release_has_a_name(postgres_rig: PostgresRig) -> None:
    account_id, key_id = (await open_account(postgres_rig)).account_id, new_id()
    await postgres_rig.rows(
        """INSERT INTO api_keys (id, account_id, digest, scopes, created_at)
        VALUES (%(id)s, %(account_id)s, %(digest)s, '{}', %(at)s)""",
        id=key_id, account_id=account_id, digest=os.urandom(32), at=AT,
    )  # fmt: skip
    (key,) = await postgres_rig.registry.list_keys(account_id)
    assert key == ApiKey(key_id, account_id, (), None, AT)
    assert (key.name, key.last_four) == (DEFAULT_NAME, None)
