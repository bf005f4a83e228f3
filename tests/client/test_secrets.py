"""The API key and what else is secret stay out of texts; errors travel between processes."""

from __future__ import annotations

import logging
import pickle
import traceback
from datetime import UTC, datetime

import pytest

from meetcore.client import (
    AsyncClient,
    Client,
    Conflict,
    CreditCapExceeded,
    IdempotencyKeyReused,
    InsufficientCredits,
    InvalidRequest,
    MeetcoreError,
    MeetingStatus,
    RateLimited,
    errors,
)
from meetcore.client.errors import error_for
from tests.client.conftest import API_KEY
from tests.client.samples import ID, WANTED, meeting, webhook
from tests.client.scripted_server import Drop, answer, refusal
from tests.client.test_retries import Against

SECRETS = (API_KEY, "k" * 43, "rahasia1", "whsec_abc", "982451", "pwd=")


async def test_nothing_secret_is_written_anywhere(
    against: Against, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    script = [
        Drop(),
        refusal(500, "internal_error"),
        answer(200, b"no"),
        Drop(b"x"),
        refusal(404, "not_found"),
    ]
    trial = await against(*script)
    written = []
    for _ in range(2):
        error = await trial.refused("meetings.create", **WANTED, password="rahasia1")
        written += [str(error), repr(error), *traceback.format_exception(error), repr(vars(error))]
        # An exception of httpx refers to the request, and so to the key.
        assert (error.__cause__, error.__context__) == (None, None)
    assert "attempt 1 failed" in caplog.text
    written += [
        repr(trial.invoke.client),
        repr(trial.invoke.client._transport),
        repr(vars(trial.invoke.client)),
    ]
    written += [*capsys.readouterr(), *(record.getMessage() for record in own(caplog))]
    assert len(trial.server.requests) == 5
    assert not [secret for secret in SECRETS if any(secret in text for text in written)]


def own(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What the client and httpx logged."""
    return [
        record
        for record in caplog.records
        if record.name.partition(".")[0] in ("meetcore", "httpx", "httpcore")
    ]


async def test_a_record_does_not_show_what_is_secret(against: Against) -> None:
    join_url = "https://zoom.example/j/1?pwd=rahasia1"
    trial = await against(
        answer(200, meeting(host_key="982451", join_url=join_url)), answer(200, webhook(secret="whsec_abc"))
    )
    found = await trial.invoke("meetings.get", ID)
    assert found.join_url == join_url
    assert (found.password, found.host_key) == ("rahasia1", "982451")
    hook = await trial.invoke("webhooks.get", ID)
    assert hook.secret == "whsec_abc"
    assert not [secret for secret in SECRETS if secret in repr(found) + repr(hook)]
    assert found.status == MeetingStatus.SCHEDULED


@pytest.mark.parametrize("key", ["", "two words", "geheim\n", "gehe\u00edm", "geheim\x00"])
def test_a_key_that_cannot_be_meant_is_refused_and_not_repeated(key: str) -> None:
    for kind in (Client, AsyncClient):
        with pytest.raises(ValueError, match="as it was shown once") as caught:
            kind("https://meet.test", key)
        assert "geh" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(set(errors.__all__) - {"error_for"}))
def test_an_error_survives_the_way_to_another_process(name: str) -> None:
    error: MeetcoreError = getattr(errors, name)("Words.", request_id="r-1", status=422)
    error.attempts, error.idempotency_key = 3, "order-4711"
    twin = pickle.loads(pickle.dumps(error))
    assert type(twin) is type(error)
    assert vars(twin) == vars(error)
    assert str(twin) == str(error)


def test_details_are_read_only_and_travel() -> None:
    error = error_for("insufficient_credits")("Words.", details={"required": 10, "available": 3})
    assert isinstance(error, InsufficientCredits)
    with pytest.raises(TypeError):
        error.details["required"] = 0  # type: ignore[index]
    twin = pickle.loads(pickle.dumps(error))
    assert (twin.required, twin.available) == (10, 3)


def test_details_are_given_as_what_they_are() -> None:
    details = {
        "id": ID,
        "fields": {"title": ["too long"]},
        "resets_at": "2026-11-21T17:00:00Z",
        "limit": True,
    }
    assert Conflict("", details=details).existing_id == ID
    assert IdempotencyKeyReused("", details=details).existing_id == ID
    assert InvalidRequest("", details=details).fields == {"title": ("too long",)}
    assert CreditCapExceeded("", details=details).resets_at == datetime(2026, 11, 21, 17, tzinfo=UTC)
    assert RateLimited("", details=details).limit is None
    for wrong in ({}, {"id": 7, "fields": [], "resets_at": "soon"}, {"resets_at": "2026-11-21T17:00:00"}):
        assert Conflict("", details=wrong).existing_id is None
        assert InvalidRequest("", details=wrong).fields == {}
        assert CreditCapExceeded("", details=wrong).resets_at is None
