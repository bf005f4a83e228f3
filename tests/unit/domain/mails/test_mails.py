"""The mail machine: every pair of status and event, the schedule, and what is left of a mail that is over."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.mails import contents, mails
from meetcore.domain.mails.mails import Sender, parse_sender
from meetcore.domain.members.roles import Role
from meetcore.domain.notes.notes import Language
from meetcore.domain.requests.accounts import InvalidEmail
from meetcore.domain.webhooks.retry_schedule import MAX_JITTER, RetrySchedule
from meetcore.testing.strategies.webhooks import jitters

NOW = datetime(2026, 12, 1, 2, tzinfo=UTC)
ID = UUID("01930000-0000-7000-8000-000000000001")
SCHEDULE = RetrySchedule(mails.MAIL_DELAYS_S)
LINK = contents.SignInLink("https://meet.example/?token=secret", NOW + timedelta(minutes=15))
CONTENTS: tuple[contents.MailContent, ...] = (
    LINK,
    contents.Invitation("https://meet.example/?token=secret", "A", "B", Role.OWNER, NOW + timedelta(days=7)),
    contents.EndpointDisabled(("https://hooks.example/",), 20, NOW, "A", "https://meet.example/"),
    contents.LowCredits(1, 10, "A", "https://meet.example/"),
    contents.PasskeyChanged("A", False, NOW, None, "https://meet.example/"),
    contents.StatementReady(NOW.date(), "A", "https://meet.example/"),
    contents.PaymentReceived("2026-000001", 5, 5_000, "IDR", "A", "https://meet.example/"),
    contents.PaymentEnded(5, 5_000, "IDR", True, "A", "https://meet.example/"),
    contents.PaymentRefunded(5, 5_000, "IDR", True, "A", "https://meet.example/"),
    contents.SuspensionChanged("A", True, "B", NOW, "https://meet.example/"),
)


def pending(content: contents.MailContent = LINK) -> mails.Mail:
    recipient = mails.Recipient("dewi@example.com", Language.ENGLISH)
    return mails.open_mail(id=ID, account_id=None, recipient=recipient, content=content, created_at=NOW)


def failed_at(
    mail: mails.Mail, error: str = "timeout", jitter: float = 0.0, *, is_final: bool = False
) -> mails.Mail:
    return mails.record_failure(mail, error, is_final=is_final, schedule=SCHEDULE, jitter=jitter, now=NOW)


def standing(status: mails.MailStatus) -> mails.Mail:
    match status:
        case mails.MailStatus.PENDING:
            return pending()
        case mails.MailStatus.SENT:
            return mails.record_sent(pending(), NOW)
        case mails.MailStatus.FAILED:
            return failed_at(pending(), is_final=True)


def happen(mail: mails.Mail, event: mails.MailEvent) -> mails.Mail:
    match event:
        case mails.MailEvent.SEND:
            return mails.record_sent(mail, NOW)
        case mails.MailEvent.RETRY:
            return failed_at(mail)
        case mails.MailEvent.FAIL:
            return failed_at(mail, is_final=True)
        case mails.MailEvent.EXPIRE:
            return mails.expire(mail, LINK.expires_at)


@pytest.mark.parametrize("event", mails.MailEvent)
@pytest.mark.parametrize("status", mails.MailStatus)
def test_every_event_in_every_status(status: mails.MailStatus, event: mails.MailEvent):
    before = standing(status)
    assert before.status is status
    after = happen(before, event)
    expected = mails.TRANSITIONS.get((status, event))
    if expected is None:
        assert after == before
    else:
        assert after.status is expected
        assert (after.content is None) == (after.due_at is None) == (expected is not mails.MailStatus.PENDING)


def test_only_a_pending_mail_changes():
    assert {status for status, _ in mails.TRANSITIONS} == {mails.MailStatus.PENDING}
    assert {event for _, event in mails.TRANSITIONS} == set(mails.MailEvent)


def test_a_new_mail_is_due_at_once_and_belongs_to_the_account_that_it_is_about():
    mail = pending()
    assert (mail.due_at, mail.attempts_made, mail.kind, mail.recipient, mail.language, mail.account_id) == (
        NOW, 0, contents.MailKind.SIGN_IN_LINK, "dewi@example.com", Language.ENGLISH, None,
    )  # fmt: skip
    assert (mail.content, mail.counted_as) == (LINK, "")
    account_id = UUID(int=7)
    mail = mails.open_mail(
        id=ID, account_id=account_id, recipient=mails.Recipient("a@example.com"), content=LINK,
        created_at=NOW, counted_as="a client",
    )  # fmt: skip
    assert (mail.id, mail.account_id, mail.counted_as) == (ID, account_id, "a client")


@pytest.mark.parametrize("email", ["", "dewi", "dewi@example.com\r\nBcc: a@example.com", "é@example.com"])
def test_no_mail_goes_to_what_is_no_address(email: str):
    with pytest.raises(InvalidEmail):
        mails.open_mail(
            id=ID, account_id=None, recipient=mails.Recipient(email), content=LINK, created_at=NOW
        )


def test_the_attempts_follow_the_schedule_and_then_the_mail_has_failed():
    mail, waits = pending(), []
    while mail.due_at is not None:
        mail = failed_at(mail, "timeout")
        waits += [] if mail.due_at is None else [mail.due_at - NOW]
    assert [wait.total_seconds() for wait in waits] == [60, 300, 1800, 7200, 21600]
    assert (mail.attempts_made, mail.failed_at, mail.last_error) == (6, NOW, "timeout")


@given(jitters(), st.integers(0, len(mails.MAIL_DELAYS_S) - 1))
def test_jitter_only_makes_an_attempt_later(jitter: float, attempts_made: int):
    due_at = failed_at(evolve(pending(), attempts_made=attempts_made), jitter=jitter).due_at
    assert due_at is not None
    delay_s = mails.MAIL_DELAYS_S[attempts_made]
    assert delay_s <= (due_at - NOW).total_seconds() <= delay_s * (1 + MAX_JITTER)


def test_what_is_refused_for_ever_is_not_tried_again():
    mail = failed_at(pending(), "550 5.1.1", is_final=True)
    assert (mail.attempts_made, mail.due_at, mail.last_error) == (1, None, "550 5.1.1")


def test_a_mail_that_arrived_has_no_error():
    mail = mails.record_sent(failed_at(pending()), NOW)
    assert (mail.attempts_made, mail.sent_at, mail.last_error) == (2, NOW, None)


@pytest.mark.parametrize("content", CONTENTS, ids=contents.kind_of)
def test_a_mail_is_sent_until_it_expires(content: contents.MailContent):
    mail, expires_at = pending(content), contents.expiry_of(content, NOW)
    assert expires_at == getattr(content, "expires_at", NOW + contents.NEWS_KEPT)
    assert mails.expire(mail, expires_at - timedelta(microseconds=1)) == mail
    expired = mails.expire(mail, expires_at)
    assert (expired.status, expired.last_error, expired.failed_at) == (
        mails.MailStatus.FAILED,
        mails.EXPIRED,
        expires_at,
    )
    assert (expired.attempts_made, expired.due_at, expired.content) == (0, None, None)


def test_each_kind_has_its_content():
    assert (
        {contents.kind_of(content) for content in CONTENTS}
        == set(contents.MailKind)
        == set(contents.CONTENT_OF)
    )
    assert all(contents.CONTENT_OF[contents.kind_of(content)] is type(content) for content in CONTENTS)


@pytest.mark.parametrize("content", CONTENTS[:2], ids=contents.kind_of)
def test_a_link_is_in_no_repr(content: contents.MailContent):
    assert "secret" not in repr(content)
    assert "secret" not in repr(pending(content))
    assert "dewi" not in repr(pending(content))


def test_the_limits_and_the_retention():
    assert mails.MailLimits() == mails.MailLimits(10, 100)
    assert (timedelta(days=30), timedelta(days=1)) == (mails.MAILS_KEPT, contents.NEWS_KEPT)
    assert mails.Recipient("a@example.com").language is Language.INDONESIAN


@pytest.mark.parametrize(("text", "sender"), [
    ("mail@meet.example", Sender("mail@meet.example")),
    (" mail@meet.example ", Sender("mail@meet.example")),
    ("<mail@meet.example>", Sender("mail@meet.example")),
    ("Rapat Kita <mail@meet.example>", Sender("mail@meet.example", "Rapat Kita")),
    ("Émile, PT. <mail@meet.example>", Sender("mail@meet.example", "Émile, PT.")),
])  # fmt: skip
def test_a_sender_is_an_address_perhaps_with_a_name(text: str, sender: Sender):
    assert parse_sender(text) == sender
    assert sender.domain == "meet.example"


@pytest.mark.parametrize(("reason", "texts"), [
    (".", ("", "mail", "A <mail>", "A <mail@meet.example", "A mail@meet.example>", '"A" <mail@meet.example>',
           "<a@b.example> <c@d.example>")),
    ("^a sender has no control characters$",
     ("A <mail@meet.example>\r\nBcc: b@example.com", "A\n<mail@meet.example>")),
    ("^before the @ of a sender no dot is the first, the last, or beside another one$",
     ("a..b@meet.example", "A <a..b@meet.example>", ".a@meet.example", "a.@meet.example")),
])  # fmt: skip
def test_anything_else_is_refused(reason: str, texts: tuple[str, ...]):
    for text in texts:
        with pytest.raises(ValueError, match=reason):
            parse_sender(text)
