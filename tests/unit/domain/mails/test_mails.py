"""The mail machine: every pair of status and event, the schedule, and what is left of a mail that is over."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.mails.contents import (
    CONTENT_OF,
    NEWS_KEPT,
    EndpointDisabled,
    Invitation,
    LowCredits,
    MailContent,
    MailKind,
    PasskeyChanged,
    SignInLink,
    StatementReady,
    expiry_of,
    kind_of,
)
from meetcore.domain.mails.mails import (
    EXPIRED,
    MAIL_DELAYS_S,
    MAILS_KEPT,
    TRANSITIONS,
    Mail,
    MailEvent,
    MailLimits,
    MailStatus,
    Recipient,
    expire,
    open_mail,
    record_failure,
    record_sent,
)
from meetcore.domain.notes.notes import Language
from meetcore.domain.requests.accounts import InvalidEmail
from meetcore.domain.webhooks.retry_schedule import MAX_JITTER, RetrySchedule
from meetcore.testing.strategies.webhooks import jitters

NOW = datetime(2026, 12, 1, 2, tzinfo=UTC)
ID = UUID("01930000-0000-7000-8000-000000000001")
SCHEDULE = RetrySchedule(MAIL_DELAYS_S)
LINK = SignInLink("https://meet.example/?token=secret", NOW + timedelta(minutes=15))
CONTENTS: tuple[MailContent, ...] = (
    LINK,
    Invitation("https://meet.example/?token=secret", "A", "B", NOW + timedelta(days=7)),
    EndpointDisabled(("https://hooks.example/",), 20, NOW, "https://meet.example/"),
    LowCredits(1, 10, "https://meet.example/"),
    PasskeyChanged("A", False, NOW, None, "https://meet.example/"),
    StatementReady(NOW.date(), "A", "https://meet.example/"),
)


def pending(content: MailContent = LINK) -> Mail:
    recipient = Recipient("dewi@example.com", Language.ENGLISH)
    return open_mail(id=ID, account_id=None, recipient=recipient, content=content, created_at=NOW)


def failed_at(mail: Mail, error: str = "timeout", jitter: float = 0.0, *, is_final: bool = False) -> Mail:
    return record_failure(mail, error, is_final=is_final, schedule=SCHEDULE, jitter=jitter, now=NOW)


def standing(status: MailStatus) -> Mail:
    match status:
        case MailStatus.PENDING:
            return pending()
        case MailStatus.SENT:
            return record_sent(pending(), NOW)
        case MailStatus.FAILED:
            return failed_at(pending(), is_final=True)


def happen(mail: Mail, event: MailEvent) -> Mail:
    match event:
        case MailEvent.SEND:
            return record_sent(mail, NOW)
        case MailEvent.RETRY:
            return failed_at(mail)
        case MailEvent.FAIL:
            return failed_at(mail, is_final=True)
        case MailEvent.EXPIRE:
            return expire(mail, LINK.expires_at)


@pytest.mark.parametrize("event", MailEvent)
@pytest.mark.parametrize("status", MailStatus)
def test_every_event_in_every_status(status: MailStatus, event: MailEvent):
    before = standing(status)
    assert before.status is status
    after = happen(before, event)
    expected = TRANSITIONS.get((status, event))
    if expected is None:
        assert after == before
    else:
        assert after.status is expected
        assert (after.content is None) == (after.due_at is None) == (expected is not MailStatus.PENDING)


def test_only_a_pending_mail_changes():
    assert {status for status, _ in TRANSITIONS} == {MailStatus.PENDING}
    assert {event for _, event in TRANSITIONS} == set(MailEvent)


def test_a_new_mail_is_due_at_once():
    mail = pending()
    assert (mail.due_at, mail.attempts_made, mail.kind, mail.recipient, mail.language, mail.account_id) == (
        NOW, 0, MailKind.SIGN_IN_LINK, "dewi@example.com", Language.ENGLISH, None,
    )  # fmt: skip
    assert mail.content == LINK


def test_a_mail_belongs_to_the_account_that_it_is_about():
    account_id = UUID(int=7)
    mail = open_mail(
        id=ID, account_id=account_id, recipient=Recipient("a@example.com"), content=LINK, created_at=NOW
    )
    assert (mail.id, mail.account_id) == (ID, account_id)


@pytest.mark.parametrize("email", ["", "dewi", "dewi@example.com\r\nBcc: a@example.com", "é@example.com"])
def test_no_mail_goes_to_what_is_no_address(email: str):
    with pytest.raises(InvalidEmail):
        open_mail(id=ID, account_id=None, recipient=Recipient(email), content=LINK, created_at=NOW)


def test_the_attempts_follow_the_schedule_and_then_the_mail_has_failed():
    mail, waits = pending(), []
    while mail.due_at is not None:
        mail = failed_at(mail, "timeout")
        waits += [] if mail.due_at is None else [mail.due_at - NOW]
    assert [wait.total_seconds() for wait in waits] == [60, 300, 1800, 7200, 21600]
    assert (mail.attempts_made, mail.failed_at, mail.last_error) == (6, NOW, "timeout")


@given(jitters(), st.integers(0, len(MAIL_DELAYS_S) - 1))
def test_jitter_only_makes_an_attempt_later(jitter: float, attempts_made: int):
    due_at = failed_at(evolve(pending(), attempts_made=attempts_made), jitter=jitter).due_at
    assert due_at is not None
    delay_s = MAIL_DELAYS_S[attempts_made]
    assert delay_s <= (due_at - NOW).total_seconds() <= delay_s * (1 + MAX_JITTER)


def test_what_is_refused_for_ever_is_not_tried_again():
    mail = failed_at(pending(), "550 5.1.1", is_final=True)
    assert (mail.attempts_made, mail.due_at, mail.last_error) == (1, None, "550 5.1.1")


def test_a_mail_that_arrived_has_no_error():
    mail = record_sent(failed_at(pending()), NOW)
    assert (mail.attempts_made, mail.sent_at, mail.last_error) == (2, NOW, None)


@pytest.mark.parametrize("content", CONTENTS, ids=kind_of)
def test_a_mail_is_sent_until_it_expires(content: MailContent):
    mail, expires_at = pending(content), expiry_of(content, NOW)
    assert expires_at == getattr(content, "expires_at", NOW + NEWS_KEPT)
    assert expire(mail, expires_at - timedelta(microseconds=1)) == mail
    expired = expire(mail, expires_at)
    assert (expired.status, expired.last_error, expired.failed_at) == (MailStatus.FAILED, EXPIRED, expires_at)
    assert (expired.attempts_made, expired.due_at, expired.content) == (0, None, None)


def test_each_kind_has_its_content():
    assert {kind_of(content) for content in CONTENTS} == set(MailKind) == set(CONTENT_OF)
    assert all(CONTENT_OF[kind_of(content)] is type(content) for content in CONTENTS)


@pytest.mark.parametrize("content", CONTENTS[:2], ids=kind_of)
def test_a_link_is_in_no_repr(content: MailContent):
    assert "secret" not in repr(content)
    assert "secret" not in repr(pending(content))
    assert "dewi" not in repr(pending(content))


def test_the_limits_and_the_retention():
    assert MailLimits() == MailLimits(10, 100)
    assert (timedelta(days=30), timedelta(days=1)) == (MAILS_KEPT, NEWS_KEPT)
    assert Recipient("a@example.com").language is Language.INDONESIAN
