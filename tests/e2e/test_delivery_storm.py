"""Deliveries with killed workers and APIs, a lost broker, and receivers that hang or fail."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import httpx
import pytest
import redis
from standardwebhooks import Webhook

from meetcore.domain.webhooks.deliveries import RELEASE_PACE
from meetcore.domain.webhooks.signature import verify
from tests.e2e.customers import Customer, client, customer, enrol, meetcore_client, meeting_body
from tests.e2e.outbox import ask, claims, statuses
from tests.e2e.receiver import Post, Receiver
from tests.support import servers
from tests.support.program import Site, free_port, until, until_none_left

KILLS = 8
LEASE_S = 3
PER_ENDPOINT = 8
SWEPT_WITHIN_S = 5.0
PROMPTLY_S = 3.0
AT_ONCE = ",".join(["0"] * 10)


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[str]:
    """A Redis without other consumers."""
    with servers.own_redis(tmp_path) as url:
        yield url


def meeting_of(post: Post) -> str:
    return str(json.loads(post.body)["data"]["id"])


def check_signatures(posts: list[Post], secret: str) -> None:
    """Verify both signatures of every post, by our verifier and by the standard's."""
    for post in posts:
        verify([secret], post.body, post.headers["X-Service-Signature"], int(post.at))
        Webhook(secret).verify(post.body, post.headers)


@pytest.mark.spec("6/2")
def test_kills_lose_no_delivery_and_repeat_only_those_in_flight(
    site: Site, receiver: Receiver, rabbitmq_url: str
) -> None:
    receiver.pause_s = 0.05
    settings = receiver.settings | {"broker_url": rabbitmq_url, "webhook_lease_s": LEASE_S}
    with ExitStack() as stack:
        api = stack.enter_context(site.serve(**settings))
        customers = [stack.enter_context(customer(site, api)) for _ in range(2)]
        hooks = {f"{a}-{b}": customers[a].hook(receiver.url(f"{a}-{b}")) for a in range(2) for b in range(5)}
        made: list[list[str]] = [[], []]
        cut_off: set[tuple[object, ...]] = set()
        for _ in range(KILLS):
            with site.worker(**settings) as worker:
                posted = len(receiver.posts)
                for who, meetings in zip(customers, made, strict=True):
                    meetings.extend(who.create_meeting().id for _ in range(12))
                until(lambda posted=posted: len(receiver.posts) > posted, "this worker posts")  # type: ignore[misc]
                # The instant of the kill is the point of it; nothing is waited for.
                time.sleep(random.uniform(0, 0.25))
                worker.kill()
            cut_off |= claims(site)
        with site.worker(**settings) as worker:
            worker.wait_until_working()
            wanted, accounts = 5 * sum(map(len, made)), [who.account_id for who in customers]
            until_none_left(
                lambda: wanted - statuses(site, *accounts)["succeeded"], "all have come",
                LEASE_S + SWEPT_WITHIN_S, every_s=0.02,
            )  # fmt: skip
    repeats = 0
    for path, endpoint in hooks.items():
        posts = receiver.at(path)
        times = Counter(meeting_of(post) for post in posts)
        assert times.keys() == set(made[int(path[0])]), "none is lost"
        assert len({(post.event_id, post.body) for post in posts}) == len(times), "a repeat repeats the same"
        repeats += times.total() - len(times)
        check_signatures(posts, str(endpoint.secret))
        assert receiver.most_open[f"/{path}"] <= PER_ENDPOINT
    print(f"{KILLS} kills, {wanted}, lost 0, in flight {len(cut_off)}, repeated {repeats}")
    assert cut_off, "the kills hit something"
    assert repeats <= len(cut_off) <= KILLS * len(hooks) * PER_ENDPOINT
    tries = "SELECT DISTINCT attempts_made FROM deliveries WHERE account_id = ANY(%s::uuid[])"
    assert ask(site, tries, accounts) == [(1,)], "what a dead worker did is recorded nowhere"


def create_until_killed(url: str, key: str, acknowledged: list[str]) -> None:
    """Create meetings until the server is killed; record the acknowledged ones."""
    with client(url, key) as http:
        while True:
            try:
                made = http.post("/meetings", json=meeting_body())
            except httpx.TransportError:
                return
            assert made.status_code == 201, made.text
            acknowledged.append(made.json()["id"])


def test_meetings_acknowledged_by_a_killed_api_are_delivered_without_notification(
    site: Site, receiver: Receiver, own_broker: str
) -> None:
    # The API notifies a port without a broker: as if killed between the commit and the notification.
    deaf = receiver.settings | {"broker_url": f"redis://127.0.0.1:{free_port()}/0"}
    _, _, key = enrol(site, 100_000)
    acknowledged: list[str] = []
    with site.worker(**receiver.settings | {"broker_url": own_broker}) as worker:
        worker.wait_until_working()
        for run in range(3):
            with site.serve(**deaf) as api, ThreadPoolExecutor(4) as pool:
                if run == 0:
                    with meetcore_client(api.url, key) as api_client:
                        api_client.webhooks.create(url=receiver.url("a"), event_types=["meeting.created"])
                enough = len(acknowledged) + 15
                asking = [pool.submit(create_until_killed, api.url, key, acknowledged) for _ in range(4)]
                until(lambda enough=enough: len(acknowledged) >= enough, "answers")  # type: ignore[misc]
                api.kill()
                for each in asking:
                    each.result()
        until_none_left(
            lambda: len(set(acknowledged) - {meeting_of(post) for post in receiver.at("a")}),
            "every meeting that was answered for is notified", PROMPTLY_S, every_s=0.02,
        )  # fmt: skip
    events = [post.event_id for post in receiver.at("a")]
    assert len(events) == len(set(events)), "no worker died: nothing comes twice"


HANGING = 32
HEALTHY_EVERY_S = 0.1
HEALTHY = 30
# From the request for the meeting to its receipt takes a few ms, a round of the worker (0.5 s) when a
# notification is lost, up to ten seconds when hanging receivers hold what the healthy one needs. Two seconds
# distinguish these on the slowest machine.
HEALTHY_WITHIN_S = 2.0
POST_LIMIT_S = 10.0  # rule 6/4


def healthy_delays(who: Customer, receiver: Receiver) -> list[float]:
    """Create meetings at a steady pace, and return the seconds until each arrived."""
    created_at = {}
    for _ in range(HEALTHY):
        before = time.time()
        created_at[who.create_meeting().id] = before
        time.sleep(HEALTHY_EVERY_S)  # the load's pace
    received_at = until(
        lambda: (
            {meeting_of(post): post.at for post in receiver.at("healthy")}
            if len(receiver.at("healthy")) >= HEALTHY
            else {}
        ),
        "the healthy one has all",
    )
    return [received_at[each] - at for each, at in created_at.items()]


@pytest.mark.spec("6/4")
def test_hanging_receivers_delay_no_other_receiver(site: Site, receiver: Receiver, own_broker: str) -> None:
    settings = receiver.settings | {"broker_url": own_broker, "webhook_retry_schedule": AT_ONCE}
    with ExitStack() as stack:
        api = stack.enter_context(site.serve(**settings))
        stack.enter_context(site.worker(**settings)).wait_until_working()
        # Two endpoints for each: failures of more would disable them together, as they are at one host.
        *hung, healthy = [stack.enter_context(customer(site, api)) for _ in range(1 + HANGING // 2)]
        stack.callback(receiver.release.set)
        hooks = [
            (who, who.hook(receiver.url(f"hang-{a}-{b}")))
            for a, who in enumerate(hung)
            for b in range(HANGING // len(hung))
        ]
        healthy.hook(receiver.url("healthy"))
        for who in hung:
            for _ in range(2 * PER_ENDPOINT):
                who.create_meeting()
        full = HANGING * PER_ENDPOINT
        # Not a count of all posts: on a slow machine the first time out and are followed before others come.
        until(
            lambda: list(_open_at_hanging(receiver).values()) == [PER_ENDPOINT] * HANGING,
            "every hanging endpoint has all that it may have",
        )
        delays = healthy_delays(healthy, receiver)
        print(
            f"healthy: median {sorted(delays)[HEALTHY // 2] * 1000:.0f} ms, worst {max(delays) * 1000:.0f} ms"
        )
        assert max(delays) < HEALTHY_WITHIN_S
        for path in _open_at_hanging(receiver):
            assert_none_joins(sorted(post.at for post in receiver.at(path.removeprefix("/"))))
        until(lambda: len(receiver.posts) > full + HEALTHY + HANGING, "their time limit runs out")
        before = time.time()
        last = healthy.create_meeting().id
        received = until(lambda: [post for post in receiver.at("healthy") if meeting_of(post) == last])
        assert received[0].at - before < HEALTHY_WITHIN_S, "nor while hundreds of posts time out"
        hangs = _open_at_hanging(receiver)
        assert hangs == dict.fromkeys(hangs, PER_ENDPOINT)
        assert len(hangs) == HANGING
        for who, endpoint in hooks:  # or they would continue during the next tests
            who.api.webhooks.update(endpoint.id, is_active=False)


def assert_none_joins(times: list[float]) -> None:
    """At a hanging endpoint a post beyond the limit comes only after another timed out."""
    assert len(times) >= PER_ENDPOINT
    later = zip(times, times[PER_ENDPOINT:], strict=False)
    assert all(at - first > POST_LIMIT_S / 2 for first, at in later), "not one more while they hang"


def _open_at_hanging(receiver: Receiver) -> dict[str, int]:
    """Return the peak of open posts at each hanging endpoint."""
    return {path: most for path, most in list(receiver.most_open.items()) if path.startswith("/hang")}


def chained_delays(who: Customer, receiver: Receiver, count: int) -> list[float]:
    """Create each meeting after the last one's delivery; return the seconds of each.

    Without a notification each waits for a whole polling round.
    """
    delays = []
    for _ in range(count):
        before, posted = time.time(), len(receiver.posts)
        who.create_meeting()
        until(lambda posted=posted: len(receiver.posts) > posted, "a post")  # type: ignore[misc]
        delays.append(receiver.posts[-1].at - before)
    return delays


def test_a_broker_restart_loses_and_duplicates_nothing(
    site: Site, receiver: Receiver, tmp_path: Path
) -> None:
    port = free_port()
    with ExitStack() as stack, ExitStack() as broker:
        settings = receiver.settings | {"broker_url": broker.enter_context(servers.own_redis(tmp_path, port))}
        api = stack.enter_context(site.serve(**settings))
        stack.enter_context(site.worker(**settings)).wait_until_working()
        who = stack.enter_context(customer(site, api))
        who.hook(receiver.url("a"))
        chained_delays(who, receiver, 5)
        broker.close()
        unavailable = median(chained_delays(who, receiver, 9))
        until(lambda: "broker away" in api.err.read_text(), "the API has noticed")

        url = broker.enter_context(servers.own_redis(tmp_path, port))
        until(
            lambda: chained_delays(who, receiver, 1) and "broker back" in api.err.read_text(), "the API rings"
        )
        with redis.Redis.from_url(url) as client:
            until(lambda: client.llen("meetcore:meetcore.wake") == 0, "the worker hears it")

        def quick_s() -> float:
            back = median(chained_delays(who, receiver, 9))
            return back if back < unavailable / 2 else 0.0

        # More than once: what else the machine does may take as long as a round.
        back = until(quick_s, "no round is waited for")
        print(f"median delay in s: {unavailable:.3f} by polling, {back:.3f} by notifications")
        ((made,),) = ask(site, "SELECT count(*) FROM deliveries WHERE account_id = %s", who.account_id)
        until(lambda: statuses(site, who.account_id) == {"succeeded": made}, "all are recorded")
        assert len({post.event_id for post in receiver.posts}) == len(receiver.posts) == made


BURST = 60


def check_pace(posts: list[Post], made: list[str], resumed_at: float) -> None:
    """Check that each post came in its turn at the pace or later, the oldest first."""
    for post in posts:
        turn = made.index(meeting_of(post)) * RELEASE_PACE.every.total_seconds()
        assert post.at >= resumed_at + turn


@pytest.mark.spec("3/disable-at-20", "3/re-enable", "6/5", "4.4/2")
def test_a_burst_of_failures_disables_once_and_resumes_at_the_paced_rate(
    site: Site, receiver: Receiver, own_broker: str
) -> None:
    receiver.status, receiver.pause_s = 500, 0.02
    settings = receiver.settings | {"broker_url": own_broker, "webhook_retry_schedule": AT_ONCE}
    with ExitStack() as stack:
        api = stack.enter_context(site.serve(**settings))
        who = stack.enter_context(customer(site, api))
        endpoint = who.hook(receiver.url("down"))
        made = [who.create_meeting().id for _ in range(BURST)]
        for _ in range(2):
            stack.enter_context(site.worker(**settings))
        disabled = until(lambda: who.api.webhooks.get(endpoint.id).disabled_at, "it is disabled")
        until(lambda: statuses(site, who.account_id) == {"held": BURST} and not claims(site), "all are held")
        record = who.api.webhooks.get(endpoint.id)
        assert (record.is_active, record.consecutive_failures) == (False, 20)
        assert record.disabled_at == disabled
        failed = len(receiver.posts)
        assert 20 <= failed <= 20 + PER_ENDPOINT, "then only what was in flight"
        tries = "SELECT count(*) FROM delivery_attempts WHERE account_id = %s AND status_code = 500"
        assert ask(site, tries, who.account_id) == [(failed,)]

        receiver.status, resumed_at = 200, time.time()
        assert who.api.webhooks.update(endpoint.id, is_active=True).is_active
        until(lambda: statuses(site, who.account_id) == {"succeeded": BURST}, "all have come")
        posts = receiver.posts[failed:]
        assert sorted(map(meeting_of, posts)) == sorted(made), "each once"
        check_pace(posts, made, resumed_at)
        record = who.api.webhooks.get(endpoint.id)
        assert (record.is_active, record.consecutive_failures) == (True, 0)


def test_pausing_and_resuming_posts_nothing_twice(site: Site, receiver: Receiver, own_broker: str) -> None:
    settings = receiver.settings | {"broker_url": own_broker}
    with ExitStack() as stack:
        api = stack.enter_context(site.serve(**settings))
        stack.enter_context(site.worker(**settings))
        who = stack.enter_context(customer(site, api))
        stack.callback(receiver.release.set)
        endpoint = who.hook(receiver.url("hang"))
        made = {who.create_meeting().id for _ in range(2 * PER_ENDPOINT)}
        until(lambda: len(receiver.posts) == PER_ENDPOINT, "as many as may be are in flight")
        for is_active in (False, True):
            assert who.api.webhooks.update(endpoint.id, is_active=is_active).is_active is is_active
        # The deliveries behind the posts in flight have been checked, and are throttled again.
        throttled = "SELECT count(*) FROM deliveries WHERE account_id = %s AND is_throttled"
        until(lambda: ask(site, throttled, who.account_id) == [(PER_ENDPOINT,)], "the others wait again")
        receiver.release.set()
        until(lambda: statuses(site, who.account_id) == {"succeeded": len(made)}, "all have come")
        assert receiver.most_open["/hang"] <= PER_ENDPOINT
        assert sorted(map(meeting_of, receiver.posts)) == sorted(made), "each once"
