"""Mails from the change to the mailbox in separate processes: nothing is lost in crashes and outages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from meetcore.domain.webhooks.endpoints import DISABLE_AFTER_FAILURES
from tests.e2e.customers import Customer, customer
from tests.e2e.outbox import ask
from tests.e2e.receiver import Receiver
from tests.support.mail_server import HANG, MailServer, mail_server_in_thread
from tests.support.program import Site, until

OF_MAILS = "SELECT sent_at IS NOT NULL, content IS NULL, attempts_made, last_error FROM mails"


@pytest.fixture
def mailbox() -> Iterator[MailServer]:
    with mail_server_in_thread() as server:
        yield server


@pytest.fixture(autouse=True)
def no_mails(site: Site) -> None:
    ask(site, "DELETE FROM mails RETURNING id")


def settings_of(port: int) -> dict[str, Any]:
    return {
        "smtp_url": f"smtp://127.0.0.1:{port}",
        "mail_from": "Rapat <mail@meet.example>",
        "webhook_retry_schedule": "",
    }


def let_a_webhook_fail(who: Customer, receiver: Receiver) -> None:
    """Post to a refusing receiver until the webhook is disabled."""
    receiver.status = 500
    hook = who.hook(receiver.url("broken?key=secret"))
    for _ in range(DISABLE_AFTER_FAILURES):
        who.api.webhooks.test(hook.id)
    until(lambda: not who.api.webhooks.get(hook.id).is_active, "it is disabled")
    receiver.status = 200


def make_mails_due(site: Site) -> None:
    ask(site, "UPDATE mails SET due_at = now() WHERE due_at IS NOT NULL RETURNING id")


def test_a_mail_outlives_the_worker_that_is_killed_while_it_sends(
    site: Site, receiver: Receiver, mailbox: MailServer
) -> None:
    settings = receiver.settings | settings_of(mailbox.port)
    mailbox.answers["DATA"] = HANG
    with site.serve(**settings) as api, customer(site, api) as who:
        let_a_webhook_fail(who, receiver)
        until(lambda: mailbox.hanging, "it is being sent")
        api.kill()
    del mailbox.answers["DATA"]
    assert ask(site, OF_MAILS) == [(False, False, 0, None)]
    make_mails_due(site)  # as when the lease has run out
    with site.serve(**settings):
        until(lambda: mailbox.messages, "another worker sends it")
        until(lambda: ask(site, OF_MAILS) == [(True, True, 1, None)], "it is recorded")
    assert len(mailbox.messages) == 1
