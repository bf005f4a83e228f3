"""A worker without a resolver under a steady stream of events: nothing is lost, no endpoint disabled.

`MEETCORE_TEST_RESOLVER_AWAY_S=300` with `MEETCORE_TEST_EVENTS_PER_S=50` is the long form.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest

from meetcore.adapters.settings import SecretStr, Settings
from meetcore.composition.application import Application
from meetcore.composition.infrastructure import open_application
from meetcore.domain.webhooks.endpoints import register
from meetcore.domain.webhooks.events import EventKind
from meetcore.domain.webhooks.urls import parse_webhook_url
from meetcore.usecases.webhooks.endpoints import add_endpoint
from tests.e2e.outbox import ask, statuses
from tests.e2e.receiver import Receiver, receiving
from tests.support.program import (
    PROGRAM,
    SECRETS_KEY,
    START_S,
    TIMEOUT_S,
    Site,
    free_port,
    has_fault,
    until,
)
from tests.support.scrape import scrape

AWAY_S = float(os.environ.get("MEETCORE_TEST_RESOLVER_AWAY_S", "3"))
EVENTS_PER_S = int(os.environ.get("MEETCORE_TEST_EVENTS_PER_S", "20"))
BEFORE_S = 1.0
DELIVERED_WITHIN_S = 60.0
HOSTS = tuple(f"hooks-{number}.test" for number in range(10))
IN_NAMESPACE = 'mount --bind "$0" /etc/hosts && mount --bind /dev/null /etc/resolv.conf && exec "$@"'

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or bool(os.environ.get("MEETCORE_TEST_PROGRAM")),
    reason="only root can give this checkout's worker an /etc/resolv.conf of its own",
)


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    with receiving(tmp_path, *HOSTS) as receiver:
        yield receiver


@contextmanager
def worker_with_hosts(site: Site, hosts: Path, log: Path, port: int, **settings: object) -> Iterator[None]:
    """Run a worker that finds names in a file of its own only, which can change meanwhile."""
    command = ("unshare", "--mount", "sh", "-c", IN_NAMESPACE, str(hosts), *PROGRAM, "worker")
    with log.open("w") as err:
        worker = subprocess.Popen(
            [*command, "--metrics-port", str(port)], env=site.env(**settings), stderr=err, stdout=err
        )
    try:
        until(lambda: "meetcore works" in log.read_text() or worker.poll() is not None, "it works", START_S)
        assert worker.poll() is None, log.read_text()
        yield
    finally:
        worker.terminate()
        worker.wait(TIMEOUT_S)


async def subscribe(application: Application) -> list[UUID]:
    """Open an account for each host, with an endpoint there."""
    accounts = []
    for host in HOSTS:
        account = await application.administration.create_account(f"sari@{host}", "Sari")
        now = application.runtime.now()
        endpoint = register(
            id=application.runtime.new_id(now), account_id=account.id, description=None, created_by="test",
            url=parse_webhook_url(f"https://{host}/in"), created_at=now, secret="whsec_test",
            event_types=(EventKind.CREDIT_TOPUP_SUCCEEDED,),
        )  # fmt: skip
        async with application.ports.store.begin() as tx:
            await add_endpoint(tx, endpoint, 1)
        accounts.append(account.id)
    return accounts


async def send_events(application: Application, accounts: list[UUID], seconds: float) -> int:
    """Make events at a steady pace; return how many."""
    begun_at, tasks = time.monotonic(), []
    for number in range(int(seconds * EVENTS_PER_S)):
        account_id = accounts[number % len(accounts)]
        tasks.append(asyncio.create_task(application.administration.top_up(account_id, 1)))
        # The load's pace, whatever a turn of the loop takes.
        await asyncio.sleep(max(0, begun_at + (number + 1) / EVENTS_PER_S - time.monotonic()))
    await asyncio.gather(*tasks)
    return len(tasks)


def sender_faults(port: int) -> dict[str, float]:
    """Return how many deliveries each fault of the sender has put off, by what its alert is made of."""
    return {
        dict(labels)["reason"]: count
        for (name, labels), count in scrape(port).items()
        if name == "meetcore_sender_faults_total" and count
    }


async def test_a_worker_without_a_resolver_disables_no_endpoint_and_loses_no_event(
    site: Site, receiver: Receiver, tmp_path: Path
) -> None:
    hosts, log, port = tmp_path / "hosts", tmp_path / "worker.err", free_port()
    known = f"{receiver.address} {' '.join(HOSTS)}\n"
    hosts.write_text(known)
    own = Settings(database_url=SecretStr(site.direct_url), secrets_key=SecretStr(SECRETS_KEY))
    settings = receiver.settings | {"webhook_posts_per_host": 16}
    async with open_application(own) as application:
        accounts = await subscribe(application)
        with worker_with_hosts(site, hosts, log, port, **settings):
            sent = await send_events(application, accounts, BEFORE_S)
            hosts.write_text("")
            sent += await send_events(application, accounts, AWAY_S)
            put_off = until(lambda: sender_faults(port), "deliveries are put off")
            hosts.write_text(known)
            back_at = time.monotonic()
            sent += await send_events(application, accounts, BEFORE_S)
            ids = [str(each) for each in accounts]
            until(lambda: statuses(site, *ids) == {"succeeded": sent}, "all is delivered", DELIVERED_WITHIN_S)
            took_s = time.monotonic() - back_at
            assert sender_faults(port).keys() == put_off.keys() == {"no_resolver"}, "one alert"
    print(f"{sent} events, {put_off} put off, all delivered {took_s:.1f} s after the resolver was back")
    assert took_s < DELIVERED_WITHIN_S
    assert len({post.event_id for post in receiver.posts}) == len(receiver.posts) == sent
    states = "SELECT state, consecutive_failures FROM webhook_endpoints WHERE account_id = ANY(%s::uuid[])"
    assert set(ask(site, states, ids)) == {("active", 0)}
    assert log.read_text().count("webhooks cannot be posted") == 1
    assert "no name server answers" in log.read_text(), "it was found when the worker started"
    assert not has_fault(log.read_text())
