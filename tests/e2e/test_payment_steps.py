"""Processes are killed at every step of a payment: its start, a notification, the look at it, its refund.

A run without a kill records the steps, which are compared with the lists below: a new step fails this test
until it is listed. `MEETCORE_TEST_KILLS` of 500 and more is the long run, with every gateway.
"""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from attrs import define, field, frozen

from meetcore.composition.application import Application
from meetcore.domain.members.roles import OperatorRole
from meetcore.domain.members.sign_in import MAX_PORTAL_MINUTES
from tests.e2e.customers import client, enrol
from tests.e2e.filled_account import with_application
from tests.e2e.outbox import ask
from tests.e2e.payment_invariants import AtGateway, prove
from tests.e2e.test_note_steps import chosen
from tests.e2e.test_payment_gateways import AMOUNT, PACKAGES, stand_in
from tests.support import servers
from tests.support.pages import TOKEN
from tests.support.program import IS_LONG, Launcher, Running, Site, until

KILLS = 3
"""Of each work in the short run."""
TRANSACTION = ("begin", "last line", "committed")


@frozen
class Calls:
    """The requests to a gateway: opening a page, finding a paid payment, sending money back."""

    open: tuple[str, ...]
    find: tuple[str, ...]
    refund: tuple[str, ...]


def answered(*calls: str, status: int = 200) -> tuple[str, ...]:
    return tuple(step for call in calls for step in (call, f"{call} {status}"))


_XENDIT_FOUND = answered("GET /sessions/n", "GET /v3/payments/n", "GET /transactions")
_SESSIONS = "/v1/checkout/sessions"
CALLS = {
    "midtrans": Calls(
        answered("POST /snap/v1/transactions", status=201),
        answered("GET /v2/n/status"),
        answered("POST /v2/n/refund"),
    ),
    "xendit": Calls(
        answered("POST /sessions", status=201), _XENDIT_FOUND, (*_XENDIT_FOUND, *answered("POST /refunds"))
    ),
    "stripe": Calls(
        answered(f"POST {_SESSIONS}"),
        answered(f"GET {_SESSIONS}/n"),
        answered(f"GET {_SESSIONS}/n", "GET /v1/refunds", "POST /v1/refunds"),
    ),
}
GATEWAYS = tuple(CALLS) if IS_LONG else ("midtrans",)


@frozen
class Work:
    """Work on a payment, and its steps; `does` runs it in a process that dies at a step, or not for 0."""

    name: str
    steps: tuple[str, ...]
    does: Callable[[Place, str, int], list[str]]


@define
class Place:
    """A database, a gateway, an API that survives, the keys of customers, and an operator's browser.

    Of an account 20 payments may wait to be paid.
    """

    name: str
    site: Site
    gateway: httpx.Client
    api: Running
    keys: list[str]
    operator: httpx.Client
    log_dir: Path
    numbers: Iterator[int] = field(factory=itertools.count)
    paid: set[str] = field(factory=set)
    kills: int = 0

    @property
    def calls(self) -> Calls:
        return CALLS[self.name]

    def buy(self, url: str, name: str) -> dict[str, Any]:
        """Start a payment under an idempotency key."""
        key = self.keys[int(name.rpartition("-")[2]) % len(self.keys)]
        with client(url, key) as http:
            answer = http.post(
                "/credits/topups", json={"package_id": "credits-500"}, headers={"Idempotency-Key": name}
            )
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    def bought(self) -> str:
        """Return the id of a payment that the customer paid; the service does not know it yet."""
        id_ = str(self.buy(self.api.url, f"bought-{next(self.numbers)}")["id"])
        self.pay(id_)
        self.hold(id_)
        return id_

    def pay(self, payment_id: str) -> None:
        self.gateway.post(f"/payments/{payment_id}/pay", json={}).raise_for_status()
        self.paid.add(payment_id)

    def hold(self, payment_id: str) -> None:
        """Keep a payment from workers until it is made due."""
        later = "UPDATE payments SET next_look_at = now() + interval '1 day' WHERE id = %s::uuid RETURNING id"
        ask(self.site, later, payment_id)

    def start(self, name: str, crash_at: int) -> list[str]:
        """Start a payment; after a death, repeat some requests at the survivor, and abandon the others."""
        steps = self._request(crash_at, lambda url: self.buy(url, name))
        if crash_at == 0 or crash_at % 2:
            self.pay(str(self.buy(self.api.url, name)["id"]))
        return steps

    def notify(self, payment_id: str, crash_at: int) -> list[str]:
        """Have the gateway notify of a paid payment."""
        notice = self.gateway.get(f"/payments/{payment_id}").json()["notices"][-1]
        path = f"/payment-events/{self.name}"
        steps = self._request(
            crash_at, lambda url: httpx.post(url + path, trust_env=False, timeout=20, **notice)
        )
        self.hold(payment_id)
        return steps

    def refund(self, payment_id: str, crash_at: int) -> list[str]:
        """Have an operator refund a part of a paid payment, again at the survivor after a death."""
        steps = self._request(crash_at, lambda url: self.post_refund(url, payment_id))
        self.post_refund(self.api.url, payment_id)
        self.hold(payment_id)
        return steps

    def post_refund(self, url: str, payment_id: str) -> None:
        page = f"/console/payments/{payment_id}"
        token = TOKEN.search(self.operator.get(self.api.url + page).text)
        assert token is not None
        fields = {"form_token": token[1], "amount": "100", "reason": "asked for", "confirmed": "yes"}
        self.operator.post(f"{url}{page}/refund", data=fields, headers={"Origin": self.api.url})

    def look(self, payment_id: str, crash_at: int) -> list[str]:
        """Have a worker ask the gateway about a payment, or send the money of its refund back."""
        due = "UPDATE payments SET next_look_at = now() WHERE id = %s::uuid RETURNING id"
        over = """SELECT id FROM payments WHERE id = %s::uuid
            AND COALESCE(next_look_at, 'infinity') > now() + interval '30 s'"""  # a lease is shorter
        step_log, crash = self._crash(crash_at)
        ask(self.site, due, payment_id)
        with self.site.worker("--only", "webhooks", **crash) as worker:
            if crash_at:
                self._wait_until_dead(worker)
            else:
                until(
                    lambda: ask(self.site, over, payment_id) and step_log.read_text().endswith("committed\n"),
                    "it is looked at",
                )
        if crash_at:
            self.hold(payment_id)
        return step_log.read_text().splitlines()

    def _request(self, crash_at: int, send: Callable[[str], object]) -> list[str]:
        step_log, crash = self._crash(crash_at)
        with self.site.serve(base_url=self.api.url, **crash) as api:
            if crash_at:
                with pytest.raises(httpx.TransportError):
                    send(api.url)
                self._wait_until_dead(api)
            else:
                send(api.url)
        return step_log.read_text().splitlines()

    def _crash(self, at: int) -> tuple[Path, dict[str, Any]]:
        step_log = self.log_dir / f"{next(self.numbers)}"
        return step_log, {"crash_point": at, "crash_log": step_log, "crash_within": "payments"}

    def _wait_until_dead(self, process: Running) -> None:
        assert until(process.poll, "it is dead") == -signal.SIGKILL, process.err.read_text()[-3000:]
        self.kills += 1

    def settle(self) -> None:
        """Let one worker finish everything, at once, with the leases of dead workers expired."""
        ask(self.site, "UPDATE payments SET next_look_at = now() WHERE next_look_at IS NOT NULL RETURNING id")
        due = "SELECT id FROM payments WHERE next_look_at < now() + interval '1 minute'"
        with self.site.worker("--only", "webhooks"):
            until(lambda: ask(self.site, due) == [], "nothing is due", every_s=0.1)


def start_of(calls: Calls) -> Work:
    return Work("a start", (*TRANSACTION, *calls.open, *TRANSACTION), Place.start)


def works_on_paid(calls: Calls) -> tuple[Work, ...]:
    return (
        Work("a notification", TRANSACTION, Place.notify),
        Work("a look, with the top-up", (*calls.find, *TRANSACTION), Place.look),
    )


def works_of_refunds(calls: Calls) -> tuple[Work, ...]:
    return (
        Work("a refund", TRANSACTION, Place.refund),
        Work("sending money back", (*TRANSACTION, *calls.refund, *TRANSACTION), Place.look),
    )


async def _operator_link(application: Application) -> str:
    operator = await application.access.operators.add("operator@example.test", OperatorRole.FINANCE)
    return (await application.access.portal_links.for_operator(operator.id, MAX_PORTAL_MINUTES)).url


def sign_in(site: Site, api: Running) -> httpx.Client:
    """Return the browser of an operator."""
    link = with_application(site, api.url, _operator_link)
    browser = httpx.Client(trust_env=False, timeout=20)
    token = TOKEN.search(browser.get(link).text)
    assert token is not None
    entered = browser.post(link, data={"form_token": token[1]}, headers={"Origin": api.url})
    assert entered.status_code == 303, entered.text
    return browser


@pytest.fixture(params=GATEWAYS)
def place(
    request: pytest.FixtureRequest, postgres_server_url: str, launcher: Launcher, redis_url: str,
    tmp_path: Path,
) -> Iterator[Place]:  # fmt: skip
    (tmp_path / "tiers.toml").write_text(PACKAGES)
    with ExitStack() as stack:
        url = stack.enter_context(servers.owned_database(postgres_server_url))
        ready = stack.enter_context(stand_in(request.param))
        site = Site(
            launcher, url,
            {
                "payment_gateway": request.param, "payment_gateway_url": ready["url"],
                "payment_gateway_secret": ready["secret"],
                "payment_gateway_webhook_secret": ready.get("webhook_secret", ""), "broker_url": redis_url,
                "tiers_file": str(tmp_path / "tiers.toml"), "database_pool_size": 4,
            },
        )  # fmt: skip
        api = stack.enter_context(site.serve())
        gateway = stack.enter_context(httpx.Client(base_url=f"{ready['url']}/stand-in", trust_env=False))
        operator = sign_in(site, api)
        stack.callback(operator.close)
        keys = [enrol(site, 0)[2] for _ in range(4)]
        yield Place(request.param, site, gateway, api, keys, operator, tmp_path)


def crash_at_each_step(place: Place, work: Work, prepare: Callable[[], str]) -> list[str]:
    """Run work without a kill, then kill at its steps (some in the short run); return its subjects."""
    done = []
    for at in (0, *chosen(work.steps, KILLS)):
        done.append(prepare())
        assert tuple(work.does(place, done[-1], at)) == work.steps[: at or None], f"{work.name}, step {at}"
    return done


def test_death_at_every_step_leaves_one_top_up_and_one_refund(place: Place) -> None:
    crash_at_each_step(place, start_of(place.calls), lambda: f"started-{next(place.numbers)}")
    for work in works_on_paid(place.calls):
        crash_at_each_step(place, work, place.bought)
    refunding, sending = works_of_refunds(place.calls)
    for _ in range(sum(1 + len(chosen(work.steps, KILLS)) for work in (refunding, sending))):
        place.bought()
    place.settle()
    paid = iter(sorted(place.paid))
    refunded = crash_at_each_step(place, refunding, lambda: next(paid))

    def refund_one() -> str:
        place.post_refund(place.api.url, id_ := next(paid))
        place.hold(id_)
        return id_

    refunded += crash_at_each_step(place, sending, refund_one)
    place.settle()
    there = {
        id_: AtGateway(AMOUNT, place.gateway.get(f"/payments/{id_}").json()["sent_back"])
        for id_ in place.paid
    }
    rows = prove(place.site, there)
    by_id = {row["id"]: row["status"] for row in rows}
    assert {id_ for id_, status in by_id.items() if status == "refunded"} == set(refunded)
    assert {by_id[id_] for id_ in place.paid} == {"paid", "refunded"}
    unpaid = [status for id_, status in by_id.items() if id_ not in place.paid]
    assert set(unpaid) <= {"pending", "failed"}
    print(f"{place.kills} kills, {len(rows)} payments, {len(unpaid)} of them unpaid")
