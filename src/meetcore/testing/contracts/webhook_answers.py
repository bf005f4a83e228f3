"""What a webhook sender makes of whatever a receiver answers: the middle third of the sender's suite."""

import asyncio
import gzip
import random
from pathlib import Path

import pytest

from meetcore.domain.webhooks.deliveries import judge
from meetcore.testing.contracts.webhook_setting import HOST, SOON_S, MakeSender, SenderBench, a_post
from meetcore.testing.receiver import (
    OK,
    Authority,
    answering,
    pouring,
    replying_and_closing,
)

_EXCERPT_BYTES = 2048
_ERRORS = frozenset({
    "dns_failed", "address_refused", "connect_timeout", "connect_failed", "tls_failed", "timeout",
    "connection_lost", "invalid_response",
})  # fmt: skip
_RETRY_AFTER = (
    ("120", 120), ("0", 0), ("9" * 30, 999_999_999),
    ("Tue, 01 Dec 2026 02:01:00 GMT", 60), ("Mon, 30 Nov 2026 02:00:00 GMT", 0),
    ("", None), ("soon", None), ("-5", None), ("1.5", None), ("Tue, 99 Dec 2026 02:01:00 GMT", None),
)  # fmt: skip
_NOT_HTTP = (
    b"not http\r\n\r\n", b"HTTP/1.1 abc OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nA: \x00\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
)  # fmt: skip
_FRAGMENTS = [
    b"HTTP/1.1 ", b"HTTP/1.1 200 OK\r\n", b"200", b" OK", b"\r\n", b"\n", b"\r\n\r\n", b":", b";", b"5",
    b"\0", b"Content-Length: ", b"Transfer-Encoding: chunked", b"Set-Cookie: ",
    b"Content-Type: x; charset=", b"Content-Encoding: br", b"Connection: ", b"Location: //[", b"\xff\xfe",
]  # fmt: skip


@pytest.mark.asyncio
class WebhookAnswersContract:
    """The part of `WebhookSenderContract` that is about answers; subclass that one."""

    @pytest.fixture
    def bench(self, make_sender: MakeSender, tmp_path: Path) -> SenderBench:
        """What makes senders and receivers, with certificates of one authority."""
        return SenderBench(make_sender, Authority(tmp_path))

    @pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
    async def test_a_2xx_is_a_success(self, bench: SenderBench, status: int) -> None:
        attempt = await bench.attempt(answering(_empty(status)))
        assert (attempt.status_code, attempt.error) == (status, None)

    @pytest.mark.parametrize("status", [300, 304, 400, 401, 404, 410, 429, 500, 503, 599])
    async def test_any_other_status_is_a_failure_by_its_number(self, bench: SenderBench, status: int) -> None:
        attempt = await bench.attempt(answering(_empty(status)))
        assert (attempt.status_code, attempt.error) == (status, f"status_{status}")

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    async def test_redirects_are_not_followed(self, bench: SenderBench, status: int) -> None:
        answer = _empty(status, f"Location: https://{HOST}/x\r\n")
        async with bench.open(answering(answer)) as (sender, receiver):
            attempt = await sender.post(a_post())
        assert (attempt.status_code, attempt.error) == (status, f"status_{status}")
        assert len(receiver.heads) == 1

    @pytest.mark.parametrize(("value", "wait_s"), _RETRY_AFTER)
    async def test_a_busy_receivers_retry_after_is_returned(
        self, bench: SenderBench, value: str, wait_s: int | None
    ) -> None:
        head = f"HTTP/1.1 503 Busy\r\nretry-after: {value}\r\nContent-Length: 4\r\n\r\n".encode()
        attempt = await bench.attempt(answering(head + b"busy"))
        assert (attempt.error, attempt.response_excerpt) == ("status_503", "busy")
        assert attempt.retry_after_s == wait_s

    async def test_a_retry_after_of_no_delay_is_none(self, bench: SenderBench) -> None:
        assert (await bench.attempt(answering(OK))).retry_after_s is None

    async def test_informational_answers_are_skipped_and_an_upgrade_is_no_success(
        self, bench: SenderBench
    ) -> None:
        early = answering(b"HTTP/1.1 103 Early\r\n\r\n" * 3 + OK)
        assert judge(await bench.attempt(early))
        upgrade = answering(b"HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
        assert not judge(await bench.attempt(upgrade, SOON_S))

    @pytest.mark.parametrize("encoding", [b"identity", b"gzip"])
    async def test_a_bomb_does_not_go_off(self, bench: SenderBench, encoding: bytes) -> None:
        bomb = gzip.compress(b"A" * 20_000_000)
        head = b"HTTP/1.1 200 OK\r\nContent-Encoding: %b\r\nContent-Length: %d\r\n\r\n" % (
            encoding, len(bomb)
        )  # fmt: skip
        attempt = await bench.attempt(answering(head + bomb))
        assert judge(attempt)
        _assert_is_safe(attempt.response_excerpt)

    async def test_an_endless_answer_is_read_to_a_cap(self, bench: SenderBench) -> None:
        attempt = await bench.attempt(pouring(b"HTTP/1.1 200 OK\r\n\r\n"))
        assert judge(attempt)
        assert attempt.response_excerpt
        assert set(attempt.response_excerpt) == {"x"}
        _assert_is_safe(attempt.response_excerpt)

    @pytest.mark.parametrize("body", [
        b"a\0b\xff\0", b"\xff\xfe\x00\xd8", b"\0\0", b"", bytes(range(256)) * 20, "é".encode() * 3000,
    ], ids=len)  # fmt: skip
    async def test_an_excerpt_is_text_that_any_store_can_hold(self, bench: SenderBench, body: bytes) -> None:
        head = b"HTTP/1.1 500 No\r\nContent-Length: %d\r\n\r\n" % len(body)
        attempt = await bench.attempt(answering(head + body))
        assert attempt.error == "status_500"
        _assert_is_safe(attempt.response_excerpt)

    @pytest.mark.parametrize("answer", _NOT_HTTP)
    async def test_an_answer_that_is_not_http_is_invalid(self, bench: SenderBench, answer: bytes) -> None:
        attempt = await bench.attempt(answering(answer))
        assert (attempt.error, attempt.status_code) == ("invalid_response", None)

    @pytest.mark.parametrize("framing", [b"Transfer-Encoding: chunked", b"Content-Length: 10"])
    async def test_a_body_that_breaks_off_is_a_failure_that_shows_its_status(
        self, bench: SenderBench, framing: bytes
    ) -> None:
        broken = replying_and_closing(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n\r\n5\r\nabc")
        attempt = await bench.attempt(broken)
        assert (attempt.status_code, attempt.error) == (200, "connection_lost")

    async def test_no_bytes_make_the_sender_raise(self, bench: SenderBench) -> None:
        rng = random.Random(20261201)

        async def reply_noise(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            beginning = b"HTTP/1.1 200 OK\r\n" if rng.random() < 0.7 else b""
            await replying_and_closing(beginning + b"".join(rng.choices(_FRAGMENTS, k=rng.randrange(25))))(
                reader, writer
            )

        async with bench.open(reply_noise) as (sender, _):
            for _ in range(200):
                attempt = await sender.post(a_post())
                assert judge(attempt) is (attempt.error is None)
                assert attempt.error in {None, f"status_{attempt.status_code}", *_ERRORS}
                _assert_is_safe(attempt.response_excerpt)


def _empty(status: int, headers: str = "") -> bytes:
    length = "" if status in (204, 304) else "Content-Length: 0\r\n"
    return f"HTTP/1.1 {status} X\r\n{headers}{length}\r\n".encode()


def _assert_is_safe(excerpt: str | None) -> None:
    assert excerpt is None or 0 < len(excerpt.encode("utf-8")) <= _EXCERPT_BYTES
    assert "\0" not in (excerpt or "")
