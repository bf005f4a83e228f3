"""The development inbox: its certificates, what it accepts, what it shows, and one request over real TLS."""

import asyncio
import json
import os
import socket
import ssl
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import UUID

import httpx
import pytest
import uvicorn
from attrs import define, field
from cryptography import x509
from starlette.applications import Starlette

from meetcore.adapters.dev_inbox import INBOX_HOST, InboxApp, MailInbox, inbox_routes, make_dev_certificate
from meetcore.adapters.dev_inbox.receiver import KEPT, MAILS_KEPT, MAX_BODY_BYTES
from meetcore.domain.mails.views import OutgoingMail
from meetcore.domain.webhooks.signature import new_secret, signing_headers
from meetcore.testing.contracts.infrastructure import outgoing
from tests.support.texts import assert_contains

NOW = datetime(2026, 12, 1, 2, 0, tzinfo=UTC)
SECRET, OLD_SECRET = new_secret(bytes(range(32))), new_secret(bytes(32))
URL = f"https://{INBOX_HOST}/hooks/a%20b?x=1"
BODY = '{"id":"1","type":"meeting.created","data":{"title":"Rapat é <b>"}}'.encode()


@define
class Service:
    """An inbox, and whose secrets are registered where; `urls` are those it was asked for."""

    now: datetime = NOW
    secrets: dict[str, list[str]] = field(factory=lambda: {URL: [SECRET]})
    urls: list[str] = field(factory=list)
    inbox: InboxApp = field(init=False)
    mails: MailInbox = field(factory=MailInbox)

    def __attrs_post_init__(self) -> None:
        self.inbox = InboxApp(self.find_secret, now=lambda: self.now)

    async def find_secret(self, url: str) -> list[str]:
        self.urls.append(url)
        return self.secrets.get(url, [])

    def sender(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.inbox))

    def browser(self, *hosts: str, **options: str) -> httpx.AsyncClient:
        app = Starlette(routes=inbox_routes(self.inbox, *hosts, mails=self.mails, **options))
        return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")

    async def take(self, body: bytes = BODY, secret: str = SECRET, url: str = URL, **more: str) -> int:
        headers = signing_headers(secret, "event-1", body, int(NOW.timestamp()))
        headers |= {"X-Service-Event": "meeting.created", "X-Service-Delivery": "d-1"}
        async with self.sender() as sender:
            return (await sender.post(url, content=body, headers=headers | more)).status_code


# What it accepts


@pytest.mark.spec("6/3", "5/9")
async def test_a_signed_delivery_is_accepted_and_kept():
    service = Service()
    assert await service.take(Cookie="secret=1") == 200
    [delivery] = service.inbox.deliveries
    assert delivery.is_verified
    assert (delivery.body, delivery.path, delivery.received_at) == (BODY, "/hooks/a%20b?x=1", NOW)
    assert service.urls == [URL]
    assert delivery.headers["X-Service-Delivery"] == "d-1"
    assert set(delivery.headers) >= {"X-Service-Signature", "webhook-id", "User-Agent"}
    assert "Cookie" not in delivery.headers


async def test_any_registered_secret_may_have_signed():
    service = Service(secrets={URL: [OLD_SECRET, SECRET]})
    assert await service.take() == 200


@pytest.mark.spec("6/3", "5/9")
@pytest.mark.parametrize(
    ("service", "taken", "problem"),
    [
        (Service(secrets={URL: [OLD_SECRET]}), {}, "no v1 signature matches"),
        (Service(secrets={}), {}, "no endpoint is registered"),
        (Service(), {"url": URL + "2"}, "no endpoint is registered"),
        (Service(now=NOW + timedelta(seconds=301)), {}, "301 s old"),
        (Service(), {"X-Service-Signature": "v1=x"}, "needs one t="),
    ],
)
async def test_a_rejected_delivery_is_answered_401_and_kept_with_the_reason(service, taken, problem):
    assert await service.take(**taken) == 401
    [delivery] = service.inbox.deliveries
    assert not delivery.is_verified
    assert problem in delivery.problem
    assert SECRET not in repr(delivery)


async def test_an_unsigned_post_is_rejected():
    service = Service()
    async with service.sender() as sender:
        answer = await sender.post(URL, content=b"")
    assert answer.status_code == 401
    assert service.inbox.deliveries[0].problem == "there is no X-Service-Signature"


async def test_only_posts_of_a_bearable_size_are_taken():
    service = Service()
    assert await service.take(b"x" * (MAX_BODY_BYTES + 1)) == 413
    async with service.sender() as sender:
        assert (await sender.get(URL)).status_code == 405
    assert service.inbox.deliveries == ()
    assert await service.take(b"x" * MAX_BODY_BYTES) == 200


async def test_the_last_200_are_kept_newest_first():
    service = Service()
    for number in range(KEPT + 3):
        await service.take(b"%d" % number)
    bodies = [int(delivery.body) for delivery in service.inbox.deliveries]
    assert bodies == list(range(KEPT + 2, 2, -1))


# What it shows


async def test_the_page_lists_what_came_newest_first():
    service = Service()
    await service.take()
    await service.take(b'{"n":2}', OLD_SECRET)
    async with service.browser() as browser:
        page = (await browser.get("/inbox")).text
    assert "2 received, 1 not verified" in page
    assert page.index("✗ not verified") < page.index("✓ verified")
    assert_contains(
        page,
        "no v1 signature matches",
        "{\n  &quot;id&quot;: &quot;1&quot;",
        "Rapat é &lt;b&gt;",
        "09:00:00 WIB",
    )


async def test_the_page_reloads_on_demand_and_states_when_it_is_empty():
    async with Service().browser() as browser:
        page, live = await browser.get("/inbox"), await browser.get("/inbox?live")
    assert_contains(
        page.text, "Nothing has arrived yet", f"https://{INBOX_HOST}/", '"?live"', absent=("http-equiv",)
    )
    assert "Refresh" not in page.headers
    assert live.headers["Refresh"] == "3"
    assert '<a href="?">Stop</a>' in live.text


async def test_the_page_is_closed_to_scripts_and_caches():
    service = Service()
    hostile = "<script>alert(1)</script>{0}"
    await service.take(hostile.encode(), **{"X-Service-Event": hostile, "User-Agent": hostile})
    async with service.browser() as browser:
        answers = [await browser.get("/inbox"), await browser.get("/inbox.json")]
    for answer in answers:
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert answer.headers["cache-control"] == "no-store"
    assert "<script" not in answers[0].text
    assert answers[0].text.count("&lt;script&gt;") == 5  # event twice, body, two headers


async def test_the_json_holds_the_same():
    service = Service()
    await service.take()
    await service.take(b"\xff not json", OLD_SECRET)
    async with service.browser() as browser:
        data = (await browser.get("/inbox.json")).json()["data"]
    assert data[0]["payload"] is None
    assert data[0]["body"] == "\ufffd not json"
    assert data[0]["verified"] is False
    assert "no v1" in data[0]["problem"]
    assert data[1] == {
        "received_at": "2026-12-01T02:00:00.000Z",
        "path": "/hooks/a%20b?x=1",
        "headers": data[1]["headers"],
        "body": BODY.decode(),
        "payload": json.loads(BODY),
        "verified": True,
        "problem": None,
    }


async def test_the_json_is_of_one_path_where_it_is_asked_for_and_ends_its_line():
    service = Service()
    await service.take()
    async with service.browser() as browser:
        found = await browser.get("/inbox.json", params={"path": "/hooks/a%20b?x=1"})
        others = await browser.get("/inbox.json?path=/hooks")
    assert len(found.json()["data"]) == 1
    assert others.text == '{"data": []}\n'


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"NaN", b'"\\ud800"', b"\xff\xfe", b"[" * 900 + b"]" * 900, b"[" * 99_999, b"9" * 5000,
        b"null",
    ],
    ids=lambda body: repr(body[:6]),
)  # fmt: skip
async def test_any_body_can_be_shown(body: bytes):
    service = Service()
    await service.take(body)
    async with service.browser() as browser:
        assert (await browser.get("/inbox")).status_code == 200
        assert len((await browser.get("/inbox.json")).json()["data"]) == 1


# Mails


def mail(**fields: Any) -> OutgoingMail:
    text = "Masuk:\nhttps://meet.example/?token=a&x=<b>\n<script>alert(1)</script>"
    return outgoing(text=text, subject="Masuk <b>", html="<p>as HTML</p>", **fields)


async def test_the_mail_page_shows_text_with_links_newest_first() -> None:
    service = Service()
    older, newer = mail(), mail(recipient="<i>@example.com")
    for each in (older, newer):
        await service.mails.send(each)
    async with service.browser() as browser:
        page = (await browser.get("/inbox/mails")).text
        as_html = await browser.get(f"/inbox/mails/{older.id}")
        records = (await browser.get("/inbox/mails.json")).json()["data"]
        missing = await browser.get(f"/inbox/mails/{UUID(int=1)}")
    assert_contains(
        page, '<a href="https://meet.example/?token=a&amp;x=">', "&lt;script&gt;", absent=("<script",)
    )
    assert page.index("&lt;i&gt;@example.com") < page.index("dewi@example.com")
    assert "2 sent, newest first." in page
    assert as_html.text == "<p>as HTML</p>"
    assert as_html.headers["content-security-policy"].startswith("default-src 'none'")
    assert [record["id"] for record in records] == [str(newer.id), str(older.id)]
    assert records[1]["text"] == older.text
    assert missing.status_code == 404


async def test_the_last_100_mails_are_kept() -> None:
    service = Service()
    for number in range(MAILS_KEPT + 5):
        await service.mails.send(mail(recipient=f"dewi{number}@example.com"))
    async with service.browser() as browser:
        page = (await browser.get("/inbox/mails")).text
    assert_contains(page, "the last 100, newest first.", "dewi5@", absent=("http-equiv", "dewi4@"))


async def test_the_two_pages_lead_to_each_other_and_an_empty_one_says_so() -> None:
    async with Service().browser() as browser:
        webhooks, mails = [(await browser.get(path)).text for path in ("/inbox", "/inbox/mails")]
    assert '<a href="/inbox/mails">Mails</a>' in webhooks
    assert_contains(mails, '<a href="/inbox">Webhooks</a>', "No mail yet")


async def test_mails_are_for_the_holder_of_the_token_alone() -> None:
    service, one = Service(), mail()
    await service.mails.send(one)
    paths = ("/inbox/mails", "/inbox/mails.json", f"/inbox/mails/{one.id}")
    async with service.browser(mail_token="t0ken") as stranger, service.browser(mail_token="t0ken") as owner:
        for path in paths:
            for query in ("", "?token=", "?token=another", "?token=%C3%A9"):
                refused = await stranger.get(path + query)
                assert (refused.status_code, "set-cookie" in refused.headers) == (403, False)
                assert "Masuk" not in refused.text
        assert (await stranger.get("/inbox")).status_code == 200
        opened = await owner.get("/inbox/mails?token=t0ken")
        assert (opened.status_code, opened.headers["referrer-policy"]) == (200, "no-referrer")
        assert_contains(opened.headers["set-cookie"], "HttpOnly", "SameSite=strict", "Path=/inbox/mails")
        assert [(await owner.get(path)).status_code for path in ("/inbox/mails", *paths[::2])] == [200] * 3
        assert (await owner.get("/inbox/mails.json?token=t0ken")).status_code == 200


# Its certificate


def read(files: tuple[Path, Path]) -> list[bytes]:
    return [file.read_bytes() for file in files]


def test_certificates_are_private_and_reused_while_they_last(tmp_path: Path):
    place = tmp_path / "deeper" / "tls"
    files = make_dev_certificate(place, NOW)
    first = read(files)
    assert [stat.S_IMODE(file.stat().st_mode) for file in (*files, place)] == [0o600] * 2 + [0o700]
    assert sorted(os.listdir(place)) == sorted(file.name for file in files)
    assert read(make_dev_certificate(place, NOW + timedelta(days=88, hours=23))) == first
    assert read(make_dev_certificate(place, NOW + timedelta(days=89))) != first


@pytest.mark.parametrize("spoiled", [0, 1])
@pytest.mark.parametrize("how", ["missing", "garbage", "empty", "another's"])
def test_certificates_that_do_not_belong_together_are_made_anew(tmp_path: Path, spoiled: int, how: str):
    files = make_dev_certificate(tmp_path / "a", NOW)
    before = read(files)
    if how == "missing":
        files[spoiled].unlink()
    else:
        other = make_dev_certificate(tmp_path / "b", NOW)[spoiled].read_bytes()
        files[spoiled].write_bytes({"garbage": b"garbage", "empty": b""}.get(how, other))
    after = read(make_dev_certificate(tmp_path / "a", NOW))
    assert all(new != old for new, old in zip(after, before, strict=True))
    assert read(make_dev_certificate(tmp_path / "a", NOW)) == after


def test_the_certificate_is_the_inboxs_alone(tmp_path: Path):
    cert_file, _ = make_dev_certificate(tmp_path, NOW)
    leaf = x509.load_pem_x509_certificate(cert_file.read_bytes())
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [INBOX_HOST]
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


@pytest.mark.parametrize("path", ["/inbox", "/inbox.json", "/inbox/mails", "/inbox/mails.json"])
async def test_the_pages_are_for_this_machine_alone(path: str) -> None:
    async with Service(now=datetime.now(UTC)).browser("dev.example.test") as browser:
        for host in ("127.0.0.1:8000", "localhost:8000", "localhost", "dev.example.test"):
            assert (await browser.get(path, headers={"Host": host})).status_code == 200
        for host in ("evil.test", "evil.test:8000", "127.0.0.1.evil.test", ""):
            assert (await browser.get(path, headers={"Host": host})).status_code == 400


# Over the wire


@asynccontextmanager
async def served(inbox: InboxApp, cert: Path, key: Path) -> AsyncIterator[int]:
    """The inbox behind TLS on a free loopback port."""
    config = uvicorn.Config(
        inbox, ssl_certfile=cert, ssl_keyfile=key, lifespan="off", ws="none", log_level="error"
    )  # fmt: skip
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        deadline = monotonic() + 10
        while not server.started:
            assert monotonic() < deadline
            assert not serving.done()
            await asyncio.sleep(0.01)
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            await serving


async def test_one_request_over_tls(tmp_path: Path):
    cert_file, key_file = make_dev_certificate(tmp_path)
    at = datetime.now(UTC)
    service = Service(now=at)
    headers = signing_headers(SECRET, "event-1", BODY, int(at.timestamp()))
    async with served(service.inbox, cert_file, key_file) as port:
        url = f"https://127.0.0.1:{port}/hooks/a%20b?x=1"
        as_inbox = {"sni_hostname": INBOX_HOST}
        trust = ssl.create_default_context(cafile=cert_file)
        trust.verify_flags |= ssl.VERIFY_X509_STRICT  # what Python 3.13 asks for by default
        async with httpx.AsyncClient(verify=trust, trust_env=False) as sender:
            good = await sender.post(url, content=BODY, headers=headers, extensions=as_inbox)
            bad = await sender.post(url, content=BODY + b" ", headers=headers, extensions=as_inbox)
        async with httpx.AsyncClient(verify=trust, trust_env=False) as sender:
            with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
                await sender.post(
                    url, content=BODY, headers=headers, extensions={"sni_hostname": "other.test"}
                )
        async with httpx.AsyncClient(verify=ssl.create_default_context(), trust_env=False) as sender:
            with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
                await sender.post(url, content=BODY, headers=headers, extensions=as_inbox)
    assert (good.status_code, bad.status_code) == (200, 401)
    assert [delivery.is_verified for delivery in service.inbox.deliveries] == [False, True]
    assert service.urls == [URL, URL]
