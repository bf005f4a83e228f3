"""The Python client against a killed server and a silent provider."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from meetcore.client import Client, Meeting
from tests.e2e.customers import CREDITS, enrol, meetcore_client, meeting_body
from tests.support.program import Site, free_port, until

BALANCE = 1000


@pytest.mark.spec("4/idem-replay", "1/meetings")
def test_a_server_that_dies_in_the_middle_makes_and_charges_one_meeting(site: Site) -> None:
    account_id, _, api_key = enrol(site, BALANCE)
    port, body = free_port(), meeting_body(title="[sandbox:late]")
    with (
        ThreadPoolExecutor(1) as pool,
        # More attempts than by default: the duration of a restart here is unknown.
        meetcore_client(f"http://127.0.0.1:{port}", api_key, max_attempts=60) as customer,
    ):
        with site.serve(port, meeting_lease_s=2) as api:
            pending = pool.submit(customer.meetings.create, **body)  # type: ignore[arg-type]  # known by name only
            until(lambda: in_creation(site, account_id), "the provider is being asked")
            api.kill()
        with site.serve(port, meeting_lease_s=2):
            made = pending.result(60)
            check_one_meeting(customer, made)
    assert site.cli("credits", "verify")["is_sound"] is True


@pytest.mark.spec("4/idem-replay", "7/502")
def test_the_defaults_outlast_a_provider_that_answers_too_late(site: Site) -> None:
    _, _, api_key = enrol(site, BALANCE)
    with site.serve() as api, meetcore_client(api.url, api_key, max_attempts=6) as customer:
        made = customer.meetings.create(**meeting_body(title="[sandbox:late]"))  # type: ignore[arg-type]  # likewise
        check_one_meeting(customer, made)


def check_one_meeting(customer: Client, made: Meeting) -> None:
    assert made.credits_deducted == CREDITS
    assert customer.meetings.get(made.id) == made
    assert customer.me().credits.balance == BALANCE - CREDITS


def in_creation(site: Site, account_id: str) -> bool:
    """Return whether a meeting of the account is being created at the provider."""
    with psycopg.connect(site.database_url) as db:
        row = db.execute(
            "SELECT count(*) FROM meetings WHERE account_id = %s AND status = 'provisioning'", (account_id,)
        ).fetchone()
    return row == (1,)
