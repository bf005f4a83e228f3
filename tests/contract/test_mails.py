"""Mails in every store: added within limits, sent by one worker at a time, erased once they are over."""

import pytest

from meetcore.adapters.secrets import KEY_BYTES, AesGcmCipher
from meetcore.testing.contracts import MailRepositoryContract
from meetcore.testing.contracts.mail_repository import CONTENTS, add_mails, claim_mails, new_mail, record_mail
from tests.support.postgres_rig import PostgresRig


class TestMails(MailRepositoryContract):
    """In memory and in Postgres."""


@pytest.mark.parametrize("error", [None, "550 5.1.1"])
async def test_a_mail_that_is_over_has_no_content_any_more(postgres_rig: PostgresRig, error: str | None):
    await add_mails(postgres_rig, new_mail(postgres_rig, CONTENTS[0]))
    [row] = await postgres_rig.rows("SELECT * FROM mails")
    assert b"SEALED-one-time" in row["content"]
    (claimed,) = await claim_mails(postgres_rig)
    await record_mail(postgres_rig, claimed, error)
    [row] = await postgres_rig.rows("SELECT * FROM mails")
    assert (row["content"], row["due_at"], row["lease_token"]) == (None, None, None)
    assert (row["last_error"], row["failed_at"] is None) == (error, error is None)


async def test_a_mail_that_does_not_open_keeps_no_other_from_being_sent(postgres_rig: PostgresRig):
    other_key = PostgresRig(postgres_rig.pool, AesGcmCipher([bytes(KEY_BYTES)]))
    await add_mails(other_key, new_mail(other_key))
    mail = new_mail(postgres_rig)
    await add_mails(postgres_rig, mail)
    assert [one.mail.id for one in await claim_mails(postgres_rig)] == [mail.id]
