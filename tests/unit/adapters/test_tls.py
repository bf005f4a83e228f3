"""TLS contexts: private authorities are accepted by each Python."""

import re
import ssl
from pathlib import Path
from typing import Any

import pytest

import meetcore.adapters
from meetcore.adapters import bounded_http, queue, redis, smtp, tls
from meetcore.adapters.webhook_sender.trust import Trust
from meetcore.domain.mails.mails import Sender

STRICT = ssl.VERIFY_X509_STRICT
ROOT = Path(meetcore.adapters.__file__).parent.parent


@pytest.fixture(autouse=True)
def _strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make default contexts as Python 3.13 does."""
    make = ssl.create_default_context

    def strict(*args: Any, **named: Any) -> ssl.SSLContext:
        context = make(*args, **named)
        context.verify_flags |= STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
    assert ssl.create_default_context().verify_flags & STRICT


def test_no_context_is_strict() -> None:
    trust = Trust(None)
    trust.load()
    server = smtp.server_from_url("smtps://mail.example.test")
    mailer = smtp.SmtpMailer(server, Sender("no-reply@example.test", "Meetcore"))
    bounded_http.tls_context.cache_clear()
    broker: Any = queue.broker_from_url("amqps://guest:guest@broker.example.test")
    contexts = [
        tls.client_context(), trust.context, mailer._tls, bounded_http.tls_context(),
        redis.read_address("rediss://cache.example.test").tls, broker.parameters.ssl_options.context,
    ]  # fmt: skip
    for context in contexts:
        assert context is not None
        assert not context.verify_flags & STRICT
        assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    client: Any = queue.broker_from_url("rediss://cache.example.test")
    assert client.client.connection_pool.make_connection().ssl_exclude_verify_flags == [STRICT]


def test_contexts_are_made_in_one_place() -> None:
    makes = re.compile(r"\.(create_default_context|create_ssl_context|_create_unverified_context)\b")
    made = {
        file.relative_to(ROOT).as_posix()
        for file in ROOT.rglob("*.py")
        if "testing" not in file.parts and makes.search(file.read_text("utf-8"))
    }
    assert made == {"adapters/tls.py", "adapters/bounded_http.py"}
