"""PostgreSQL as a managed service gives it: a role that owns its database, no superuser, and `btree_gist`.

The `site` of all end-to-end tests is of such a role; here it begins with an empty database, too.
"""

from __future__ import annotations

import psycopg
import pytest
from psycopg.rows import dict_row

from tests.e2e.customers import CREDITS
from tests.e2e.customers import customer as enrolled
from tests.e2e.receiver import Receiver
from tests.support import servers
from tests.support.program import Launcher, Site, has_fault, until

OF_THE_PLANNER = "-c%20plan_cache_mode%3Dauto%20-c%20enable_seqscan%3Don%20-c%20jit%3Don"
RIGHTS = """
SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls AS has_attributes,
    EXISTS (SELECT FROM pg_auth_members WHERE member = r.oid) AS is_member,
    (SELECT array_agg(extname::text ORDER BY extname) FROM pg_extension) AS extensions,
    (SELECT count(*) FROM pg_db_role_setting WHERE setrole <> 0) AS roles_with_settings,
    (SELECT array_agg(DISTINCT rolname::text) FROM pg_class c JOIN pg_roles o ON o.oid = relowner
        WHERE relnamespace = 'public'::regnamespace) AS owners
FROM pg_roles r WHERE rolname = current_user
"""


@pytest.mark.direct("a pooler passes no options on")
@pytest.mark.parametrize("options", ["", OF_THE_PLANNER], ids=["our planner", "the server's planner"])
def test_the_service_needs_a_database_of_its_own_and_one_extension(
    launcher: Launcher, empty_database_url: str, postgres_server_url: str, receiver: Receiver, options: str
) -> None:
    url = servers.as_owner(postgres_server_url, empty_database_url)
    if options:
        url = f"{url}%20{options}" if "options=" in url else f"{url}?options={options}"
    site = Site(launcher, url, receiver.settings)
    assert site.cli("migrate")["applied"]
    site.cli("host", "add", "--provider-user-id", "host-1", "--capacity", 100)
    with site.serve() as api, site.worker() as worker, enrolled(site, api, credits=30) as customer:
        customer.hook(receiver.url("in"), "meeting.created")
        meeting = customer.create_meeting()
        until(lambda: receiver.at("in"), "the sale was notified")
        assert customer.api.meetings.cancel(meeting.id).credits_refunded == CREDITS
        account = ("--account", customer.account_id)
        site.cli("credits", "topup", *account, "--amount", 5, "--reference", "INV-1")
        site.cli("key", "roll", customer.key_id, "--overlap", 1)
        site.cli("portal", "link", *account)
        assert site.cli("partitions")["ahead"] == 4
        assert site.cli("secrets", "reseal")["is_done"] is True
        assert site.cli("credits", "verify")["is_sound"] is True
        assert site.cli("account", "show", customer.account_id)["balance"] == 35
        logs = [each.err.read_text() for each in (api, worker)]
    assert not any(map(has_fault, logs))
    checks = launcher.run("doctor", "--json", env=site.env()).json["checks"]
    status = {each["check"]: each["status"] for each in checks}
    assert {status[name] for name in ("database", "schema", "partitions", "pooler", "clock")} == {"ok"}
    with psycopg.connect(url, row_factory=dict_row) as connection:
        found = connection.execute(RIGHTS).fetchone()
    role = servers.role_of(url)
    assert found == {
        "has_attributes": False, "is_member": False, "extensions": ["btree_gist", "plpgsql"],
        "roles_with_settings": 0, "owners": [role],
    }  # fmt: skip
