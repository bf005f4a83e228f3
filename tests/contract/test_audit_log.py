"""The audit log in every store, and the removal of addresses that earlier releases wrote into it."""

import re
from pathlib import Path

from attrs import evolve

from meetcore.adapters.postgres.pool import Pool
from meetcore.domain.members.audit import Actor, ActorKind, AuditEntry
from meetcore.domain.members.members import Invitation, User
from meetcore.domain.members.roles import Role
from meetcore.testing.contracts import AuditLogContract
from meetcore.testing.contracts.transactions import AT, email_of, new_id, open_account
from tests.support.postgres_rig import PostgresRig

PRIVACY = Path(__file__).resolve().parents[2] / "docs/privacy.md"


class TestAuditLog(AuditLogContract):
    """In memory and in Postgres."""


async def test_addresses_in_old_entries_are_removed_as_documented(
    postgres_rig: PostgresRig, store_pool: Pool
) -> None:
    account_id = (await open_account(postgres_rig)).account_id
    user = User(new_id(), email_of(new_id()), "A member", AT)
    invited = Invitation(new_id(), account_id, email_of(new_id()), Role.VIEWER, None, AT, AT)
    entry = AuditEntry(
        new_id(), AT, account_id, Actor(ActorKind.MEMBER, user.id, user.email), "member.invited",
        str(invited.id), {"role": "viewer", "email": invited.email},
    )  # fmt: skip
    operators = evolve(entry, id=new_id(), actor=Actor(ActorKind.OPERATOR, new_id(), "ops@example.com"))
    async with postgres_rig.store.begin() as tx:
        await tx.members.ensure_user(user)
        await tx.members.add_invitation(invited)
        await tx.audit_log.append(entry)
        await tx.audit_log.append(operators)
    [statements] = re.findall(r"^```sql\n(.*?)^```$", PRIVACY.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    async with store_pool.connection() as connection:
        for statement in statements.strip().split(";\n"):
            await connection.execute(statement.encode())
        rows = await connection.execute("SELECT to_jsonb(g)::text AS text FROM audit_log g")
        kept = " ".join([row["text"] for row in await rows.fetchall()])
    assert user.email not in kept
    assert invited.email not in kept
    shown = await postgres_rig.queries.list_audit_entries(account_id, 9, None)
    assert list(shown) == [operators, entry], "what is shown stays the same"
