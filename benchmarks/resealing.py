"""`python -m benchmarks.resealing [--values 100000]`: from one secrets key to another while customers ask.

A customer's values are sealed under the old key. `serve` with both keys answers requests, first alone, then
while `meetcore secrets reseal` runs, is killed half way with -9 and runs again. Then the old key is taken
away: every value has to open over HTTP, and every link to lead where it did.
"""

import argparse
import base64
import os
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import httpx
import psycopg
from attrs import define, field, frozen

from benchmarks.places import database_server, fresh_database
from benchmarks.sealed_values import copy_rows, sealed_under
from meetcore.adapters.sandbox.links import JoinLinks
from meetcore.adapters.secrets import AesGcmCipher, derive, keys_from_text
from meetcore.composition.secret_keys import ROOM_PURPOSES
from tests.e2e.customers import client, enrol, meeting_body
from tests.support.program import SECRETS_KEY, Launcher, Site, free_port, until

SMOKE_VALUES = 600
CLIENTS = 4
LATE_S = 1800.0
_PAGE = 100


@frozen
class Customer:
    """A customer, and what is to be found when everything opens."""

    account_id: str
    key: str = field(repr=False)
    links: JoinLinks = field(repr=False)


@define
class Load:
    """Requests of some clients: how long each took, and the faults."""

    took: list[float] = field(factory=list)
    faults: Counter[str] = field(factory=Counter)
    stop: threading.Event = field(factory=threading.Event)

    def percentile_ms(self, share: float) -> float:
        """How long that share of the requests took at most."""
        ordered = sorted(self.took)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000 if ordered else 0.0

    @property
    def text(self) -> str:
        return (
            f"{len(self.took)} requests, p50 {self.percentile_ms(0.5):.1f} ms, "
            f"p95 {self.percentile_ms(0.95):.1f} ms, p99 {self.percentile_ms(0.99):.1f} ms, "
            f"longest {self.percentile_ms(1):.0f} ms; failed: {dict(self.faults) or 0}"
        )


@contextmanager
def asking(url: str, customer: Customer, meetings: list[str]) -> Iterator[Load]:
    """Read, list and buy without a pause while the block runs."""
    load = Load()
    threads = [threading.Thread(target=_ask, args=(url, customer, meetings, load)) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield load
    finally:
        load.stop.set()
        for thread in threads:
            thread.join()


def _ask(url: str, customer: Customer, meetings: list[str], load: Load) -> None:
    with client(url, customer.key) as http:
        while not load.stop.is_set():
            kind, begun = random.random(), time.monotonic()
            try:
                if kind < 0.7:
                    fault = _faults_of([http.get(f"/meetings/{random.choice(meetings)}").json()], customer)
                elif kind < 0.9:
                    found = http.get("/events?limit=20").json()["data"]
                    fault = "" if all(each["data"] for each in found) else "an event does not open"
                else:
                    answer = http.post("/meetings", json=meeting_body(), headers={"Idempotency-Key": _word()})
                    fault = "" if answer.status_code == 201 else f"a sale: {answer.status_code}"
            except (httpx.TransportError, KeyError, ValueError) as error:
                fault = type(error).__name__
            load.took.append(time.monotonic() - begun)
            if fault:
                load.faults[fault] += 1


def _word() -> str:
    return os.urandom(8).hex()


def _faults_of(meetings: list[dict[str, Any]], customer: Customer) -> str:
    """What does not open of some meetings; none of theirs was bought by a client above."""
    for each in meetings:
        if each.get("join_url") != customer.links.join_url(UUID(each["id"])):
            return "a link does not open"
        if not each.get("password"):
            return "a password does not open"
    return ""


def prepare(url: str, customer: Customer) -> None:
    """Hold a meeting that is recorded and noted, and plan another."""
    with client(url, customer.key) as api:
        made = api.post("/meetings", json=meeting_body(with_recording=True)).raise_for_status().json()
        page = urlsplit(made["join_url"])
        for button in ("start", "end"):
            httpx.post(f"{url}{page.path}/{button}?{page.query}", trust_env=False)
        listed = f"/recordings?meeting_id={made['id']}"
        (recording,) = until(lambda: api.get(listed).json()["data"], "it is recorded", LATE_S)
        note = api.post("/notes", json={"recording_id": recording["id"]}).raise_for_status().json()
        until(lambda: api.get(f"/notes/{note['id']}").json()["status"] == "completed", "it is noted", LATE_S)
        api.post("/meetings", json=meeting_body()).raise_for_status()


# Whether the update of events waits for the row that is held.
_IS_HELD_UP = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock' AND starts_with(query, 'UPDATE events')
"""


def reseal_and_kill(site: Site, env: dict[str, str], account_id: str, events: int) -> float:
    """Start a reseal and kill it in the middle of the events. Returns the seconds that it had."""
    with (
        psycopg.connect(site.database_url) as holder,
        psycopg.connect(site.database_url, autocommit=True) as look,
    ):
        holder.execute(
            "SELECT 1 FROM events WHERE account_id = %s ORDER BY id OFFSET %s LIMIT 1 FOR UPDATE",
            [account_id, events // 2],
        )
        begun = time.monotonic()
        running = site.launcher.start("secrets", "reseal", "--json", env=env)
        until(lambda: look.execute(_IS_HELD_UP).fetchone() == (1,), "half is done", LATE_S, every_s=0.05)
        running.kill()
        return time.monotonic() - begun


def reseal(site: Site, env: dict[str, str]) -> tuple[float, Mapping[str, Any]]:
    """Reseal to the end: seconds, and what the command reports."""
    begun = time.monotonic()
    done = site.launcher.start("secrets", "reseal", "--json", env=env).wait(LATE_S)
    assert done.code == 0, done
    return time.monotonic() - begun, done.json


def open_everything(url: str, customer: Customer, expected: Mapping[str, int]) -> list[str]:
    """Read every record over HTTP and follow every link. Returns what is wrong."""
    faults, links, downloads = Counter[str](), [], []
    with client(url, customer.key) as http:
        found: Counter[str] = Counter()
        for name in ("meetings", "events", "recordings", "notes"):
            for each in _pages(http, name):
                found[name] += 1
                fault = ""
                if name == "meetings" and each["status"] == "scheduled":
                    fault = _faults_of([each], customer)
                    links.append(each["join_url"])
                elif name == "events":
                    fault = "" if each["data"] else "an event does not open"
                elif name == "recordings":
                    fault = "" if each["size_bytes"] else "the files of a recording do not open"
                    downloads.append(each["id"])
                elif name == "notes":
                    fault = "" if each["transcript"] else "a note does not open"
                faults[fault] += 1
        lacking = {name: count for name, count in expected.items() if found[name] < count}
        downloads = [http.get(f"/recordings/{id_}/download-url").json()["url"] for id_ in downloads[:_PAGE]]
    statuses = Counter(_statuses([*links, *downloads]))
    print(
        f"opened over HTTP: {dict(found)}; "
        f"links followed: {len(links)} to meetings, {len(downloads)} to recordings"
    )
    faults.pop("", None)
    wrong = [f"{count} times: {name}" for name, count in faults.items()]
    wrong += [f"too few: {lacking}"] if lacking else []
    return wrong + ([f"links: {dict(statuses)}"] if set(statuses) - {200} else [])


def _pages(http: httpx.Client, name: str) -> Iterator[dict[str, Any]]:
    cursor = None
    while True:
        page = http.get(f"/{name}", params={"limit": _PAGE} | ({"cursor": cursor} if cursor else {}))
        found = page.raise_for_status().json()
        yield from found["data"]
        if (cursor := found["next_cursor"]) is None:
            return


def _statuses(links: list[str]) -> list[int]:
    """What each address answers; of a download only the beginning is read."""
    with httpx.Client(timeout=30, trust_env=False) as http, ThreadPoolExecutor(CLIENTS) as threads:

        def status(url: str) -> int:
            with http.stream("GET", url) as answer:
                return answer.status_code

        return list(threads.map(status, links))


def measure(values: int = SMOKE_VALUES, quiet_s: float = 2.0) -> list[str]:
    """Do all of it; what it is called with by itself says only whether it works. Returns what is wrong."""
    port, new = free_port(), base64.urlsafe_b64encode(os.urandom(32)).decode()
    url, both = f"http://127.0.0.1:{port}", f"{new},{SECRETS_KEY}"
    [old_key] = keys_from_text(SECRETS_KEY)
    with (
        database_server() as server, fresh_database(server) as database,
        tempfile.TemporaryDirectory() as place
    ):  # fmt: skip
        launcher = Launcher(Path(place))
        site = Site(launcher, database, {"log_level": "warning", "base_url": url})
        site.cli("host", "add", "--provider-user-id", "bench", "--capacity", 1000, "--max-concurrent", 1000)
        account_id, _, key = enrol(site, 10**9)
        customer = Customer(account_id, key, JoinLinks(url, derive(old_key, ROOM_PURPOSES["sandbox"])))
        with site.serve(port):
            prepare(url, customer)
        made = copy_rows(database, account_id, values, AesGcmCipher([old_key]), customer.links)
        with site.serve(port, secrets_key=both):
            faults = _reseal_under_load(site, customer, both, made, quiet_s)
            left = sealed_under(database, AesGcmCipher([old_key]).key_ids[0])
            kept = site.cli("secrets", "derive", secrets_key=both)
        settings = {name.removeprefix("MEETCORE_").lower(): value for name, value in kept.items()}
        with site.serve(port, secrets_key=new, **settings):
            faults += open_everything(url, customer, made)
        audit = site.cli("credits", "verify", secrets_key=new, **settings)
        launcher.close()
    print(f"left under the old key: {left}; the ledger is sound: {audit['is_sound']}")
    return (
        faults + ([f"{left} values are left"] if left else []) + ([] if audit["is_sound"] else ["the ledger"])
    )


def _reseal_under_load(
    site: Site, customer: Customer, keys: str, made: Mapping[str, int], quiet_s: float
) -> list[str]:
    url, env = str(site.settings["base_url"]), site.env(secrets_key=keys)
    with client(url, customer.key) as http:
        meetings = [each["id"] for each in http.get("/meetings?limit=100&status=scheduled").json()["data"]]
    with asking(url, customer, meetings) as alone:
        time.sleep(quiet_s)
    with asking(url, customer, meetings) as beside:
        killed_s = reseal_and_kill(site, env, customer.account_id, made["events"])
        first = sealed_under(site.database_url, _first_id(keys))
        resumed_s, report = reseal(site, env)
    print(f"alone:  {alone.text}\nbeside: {beside.text}")
    print(
        f"killed after {killed_s:.1f} s and {first} values, "
        f"resumed for {resumed_s:.1f} s and {report['resealed']}: "
        f"{(first + report['resealed']) / (killed_s + resumed_s):.0f} values a second; "
        f"changed meanwhile {report['changed_meanwhile']}, unreadable {report['unreadable']}"
    )
    faults = [f"{name}: {count} times" for name, count in (alone.faults + beside.faults).items()]
    return faults if report["is_done"] and first else [*faults, f"the reseal: {first}, {dict(report)}"]


def _first_id(keys: str) -> bytes:
    return AesGcmCipher(keys_from_text(keys)).key_ids[0]


def main() -> None:
    """Measure, print, and end with 1 where something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.resealing", description=__doc__)
    parser.add_argument("--values", type=int, default=100_000)
    chosen = parser.parse_args()
    faults = measure(chosen.values, 20.0)
    raise SystemExit("; ".join(faults) if faults else 0)


if __name__ == "__main__":
    main()
