"""What everything that posts webhooks is held against: a TLS receiver that misbehaves in every way it can.

Owns what holds for any sender: what it sends, what it makes of an answer (`webhook_answers`), whom it
refuses to dial, and that nothing a receiver does is raised. Its pool of connections
and its limits, and how an excerpt is cut, are tested with each adapter.
"""

import asyncio
import socket
from ipaddress import IPv4Address, IPv4Network, ip_address
from time import monotonic

import pytest
from attrs import evolve

from meetcore.domain.webhooks.deliveries import Attempt, judge
from meetcore.ports.webhook_sender import WebhookSender
from meetcore.testing.contracts.webhook_answers import WebhookAnswersContract
from meetcore.testing.contracts.webhook_setting import (
    HOST,
    LOCAL,
    NOW,
    SOON_S,
    HangingResolver,
    MakeSender,
    SenderBench,
    SenderSetting,
    StaticResolver,
    a_post,
)
from meetcore.testing.receiver import (
    OK,
    Behaviour,
    answering,
    dripping,
    hang,
    hang_up,
    reset,
)

__all__ = ["MakeSender", "SenderSetting", "WebhookSenderContract"]

_HEADERS = {"webhook-id": "evt_1", "webhook-timestamp": "1796090400", "webhook-signature": "v1,a/b+c= v1,d"}
_NOT_PUBLIC = (
    "https://127.0.0.1/", "https://10.0.0.1/", "https://169.254.169.254/", "https://168.63.129.16/", "https://[::1]/",
    "https://[::ffff:127.0.0.1]/", "https://[64:ff9b::7f00:1]/", "https://[2002:7f00:1::]/", "https://224.0.0.1/",
)  # fmt: skip
_SLOW = {
    "hangs": (hang, None),
    "drips its status": (dripping(b"HTTP/1.1 200 ", b"O"), None),
    "drips headers": (dripping(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n"), None),
    "drips early hints": (dripping(b"", b"HTTP/1.1 103 Early\r\n\r\n"), None),
    "drips its body": (dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", b"x"), 200),
}


class WebhookSenderContract(WebhookAnswersContract):
    """The suite for one `WebhookSender`. The fixture `make_sender` makes one with the given settings::

    class TestMySender(WebhookSenderContract):
        @pytest.fixture
        def make_sender(self) -> MakeSender:
            @asynccontextmanager
            async def make(setting: SenderSetting) -> AsyncIterator[WebhookSender]:
                sender = MySender(
                    setting.resolver, setting.allowed_networks, ca_file=setting.ca_file, port=setting.port,
                    timeout_s=setting.timeout_s, now=setting.now,
                )
                yield sender
                await sender.close()

            return make
    """

    # What is sent

    async def test_a_delivery_arrives_as_it_was_signed(self, bench: SenderBench) -> None:
        async with bench.open(answering(OK)) as (sender, receiver):
            attempt = await sender.post(a_post(headers=_HEADERS))
        assert judge(attempt)
        assert attempt.duration_ms >= 0
        assert evolve(attempt, duration_ms=0) == Attempt(
            NOW, 0, status_code=200, response_excerpt="ok", address="127.0.0.1"
        )
        assert receiver.bodies == [b'{"id":"1"}']
        assert receiver.names == [HOST]
        line, headers = _read(receiver.heads[0])
        assert line == "POST /hook?x=1 HTTP/1.1"
        assert headers["host"] == [HOST]
        assert {name: headers.get(name) for name in _HEADERS} == {
            name: [value] for name, value in _HEADERS.items()
        }

    @pytest.mark.parametrize(
        "body", [b"", b"\0\r\n\r\n\xff", '{"名":"é"}'.encode(), bytes(range(256)) * 4096], ids=len
    )
    async def test_the_body_goes_out_byte_for_byte(self, bench: SenderBench, body: bytes) -> None:
        async with bench.open(answering(OK)) as (sender, receiver):
            assert judge(await sender.post(a_post(body=body)))
        assert receiver.bodies == [body]

    @pytest.mark.parametrize(
        "target", ["/", "/a/../b//c", "/a%2Fb%20?q=%C3%BC&x[]=1;2", "/~a;b=c/@:!$&'()*+,=?/?"]
    )
    async def test_path_and_query_go_out_byte_for_byte(self, bench: SenderBench, target: str) -> None:
        async with bench.open(answering(OK)) as (sender, receiver):
            assert judge(await sender.post(a_post(f"https://{HOST}{target}")))
        assert receiver.heads[0].split(b" ")[1].decode() == target

    async def test_cookies_and_proxies_of_the_environment_are_ignored(
        self, bench: SenderBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        cookie = OK.replace(b"OK\r\n", b"OK\r\nSet-Cookie: a=b; Path=/\r\n")
        async with bench.open(answering(cookie)) as (sender, receiver):
            for _ in range(2):
                assert judge(await sender.post(a_post()))
        assert not any(b"cookie" in head.lower() for head in receiver.heads)

    # TLS

    async def test_the_certificate_must_be_for_the_name(self, bench: SenderBench) -> None:
        async with bench.open(answering(OK)) as (sender, receiver):
            attempt = await sender.post(a_post("https://other.test/"))
        assert (attempt.error, attempt.status_code, receiver.heads) == ("tls_failed", None, [])

    async def test_the_certificate_must_be_of_a_trusted_authority(self, bench: SenderBench) -> None:
        async with bench.open(answering(OK), ca_file=None) as (sender, receiver):
            assert (await sender.post(a_post())).error == "tls_failed"
        assert receiver.heads == []

    async def test_the_certificate_of_an_address_is_checked_for_the_address(self, bench: SenderBench) -> None:
        for names, error in (((HOST, LOCAL), None), ((HOST, "127.0.0.1"), "tls_failed")):
            async with bench.open(answering(OK), *names) as (sender, receiver):
                assert (await sender.post(a_post("https://127.0.0.1/"))).error == error
            assert [_read(head)[1]["host"] for head in receiver.heads] == [["127.0.0.1"]] * (error is None)

    # Time and connections

    @pytest.mark.parametrize(("behaviour", "status_code"), _SLOW.values(), ids=_SLOW)
    async def test_one_clock_runs_over_the_whole_attempt(
        self, bench: SenderBench, behaviour: Behaviour, status_code: int | None
    ) -> None:
        attempt = await bench.attempt(behaviour, SOON_S)
        assert not judge(attempt)
        assert (attempt.status_code, attempt.error) == (status_code, "timeout")
        assert SOON_S * 1000 <= attempt.duration_ms < SOON_S * 1000 + 2000

    async def test_a_receiver_that_never_completes_the_handshake_is_a_connect_timeout(
        self, bench: SenderBench
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            async with bench.sender(silent.getsockname()[1], timeout_s=SOON_S) as sender:
                assert (await sender.post(a_post())).error == "connect_timeout"

    async def test_a_closed_port_is_connect_failed(self, bench: SenderBench) -> None:
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))  # without listening
            async with bench.sender(bound.getsockname()[1]) as sender:
                attempt = await sender.post(a_post())
        assert evolve(attempt, duration_ms=0, address=None) == Attempt(NOW, 0, error="connect_failed")

    @pytest.mark.parametrize("behaviour", [reset, hang_up])
    async def test_a_receiver_that_goes_is_a_lost_connection_and_is_not_tried_again(
        self, bench: SenderBench, behaviour: Behaviour
    ) -> None:
        async with bench.open(behaviour) as (sender, receiver):
            attempt = await sender.post(a_post())
        assert (attempt.error, attempt.status_code) == ("connection_lost", None)
        assert receiver.connections == 1

    async def test_a_cancelled_post_is_cancelled_and_leaves_the_sender_fit(self, bench: SenderBench) -> None:
        arrived = asyncio.Event()

        async def first_hangs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            is_first = not arrived.is_set()
            arrived.set()
            await (hang if is_first else answering(OK))(reader, writer)

        async with bench.open(first_hangs) as (sender, _):
            task = asyncio.create_task(sender.post(a_post()))
            await asyncio.wait_for(arrived.wait(), 10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert judge(await sender.post(a_post()))

    async def test_a_receiver_that_hangs_holds_up_no_other_post(self, bench: SenderBench) -> None:
        async def hangs_for_some(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await (hang if b"/hang" in receiver.heads[-1] else answering(OK))(reader, writer)

        async with bench.open(hangs_for_some, timeout_s=2.0) as (sender, receiver):
            hanging = [asyncio.create_task(sender.post(a_post(f"https://{HOST}/hang"))) for _ in range(5)]
            attempt = await sender.post(a_post())
            assert judge(attempt)
            assert not any(task.done() for task in hanging)
            assert {one.error for one in await asyncio.gather(*hanging)} == {"timeout"}

    # Vetting

    @pytest.mark.parametrize("url", _NOT_PUBLIC)
    async def test_an_address_that_is_not_public_is_not_dialled(self, bench: SenderBench, url: str) -> None:
        async with bench.open(answering(OK), HOST, LOCAL, allowed_networks=()) as (sender, receiver):
            attempt = await sender.post(a_post(url))
        assert evolve(attempt, duration_ms=0) == Attempt(NOW, 0, error="address_refused")
        assert receiver.connections == 0

    @pytest.mark.parametrize(
        "addresses", [("127.0.0.1",), ("8.8.8.8", "10.0.0.1"), ("fe80::1%1",), ("::ffff:127.0.0.1",)]
    )
    async def test_a_name_that_resolves_to_one_is_refused_whole(
        self, bench: SenderBench, addresses: tuple[str, ...]
    ) -> None:
        resolver = StaticResolver(tuple(map(ip_address, addresses)))
        networks = (IPv4Network("10.9.0.0/16"),)
        changes = {"resolver": resolver, "allowed_networks": networks}
        async with bench.open(answering(OK), **changes) as (sender, receiver):
            assert (await sender.post(a_post())).error == "address_refused"
        assert receiver.connections == 0

    async def test_an_exempt_network_is_dialled_and_not_its_mapped_form(self, bench: SenderBench) -> None:
        async with bench.open(answering(OK)) as (sender, receiver):
            assert judge(await sender.post(a_post()))
            assert (await sender.post(a_post("https://[::ffff:127.0.0.1]/"))).error == "address_refused"
        assert len(receiver.heads) == 1

    async def test_an_open_connection_does_not_outlive_the_vetting_of_its_address(
        self, bench: SenderBench
    ) -> None:
        resolver = StaticResolver((LOCAL,))
        async with bench.open(answering(OK), resolver=resolver) as (sender, receiver):
            assert judge(await sender.post(a_post()))
            resolver.addresses = (IPv4Address("10.0.0.1"),)
            await _until_refused(sender)
            taken = len(receiver.heads)
            for _ in range(3):
                assert (await sender.post(a_post())).error == "address_refused"
        assert len(receiver.heads) == taken

    # Names

    async def test_a_name_that_does_not_resolve_is_dns_failed(self, bench: SenderBench) -> None:
        async with bench.sender(resolver=StaticResolver(())) as sender:
            attempt = await sender.post(a_post())
        assert evolve(attempt, duration_ms=0) == Attempt(NOW, 0, error="dns_failed")

    async def test_time_that_runs_out_in_the_lookup_is_dns_failed(self, bench: SenderBench) -> None:
        async with bench.sender(resolver=HangingResolver(), timeout_s=0.05) as sender:
            assert (await sender.post(a_post())).error == "dns_failed"


async def _until_refused(sender: WebhookSender) -> None:
    """An answer of the resolver may serve for a second (and on a loaded machine a second is long)."""
    deadline = monotonic() + 10
    while (await sender.post(a_post())).error != "address_refused":
        assert monotonic() < deadline, "a name's new address was never vetted"


def _read(head: bytes) -> tuple[str, dict[str, list[str]]]:
    """The request line, and the values of each header by its name in small letters."""
    line, *lines = head.decode("ascii").removesuffix("\r\n\r\n").split("\r\n")
    headers: dict[str, list[str]] = {}
    for one in lines:
        name, _, value = one.partition(":")
        headers.setdefault(name.lower(), []).append(value.strip(" "))
    return line, headers
