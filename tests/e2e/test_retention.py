"""A worker removes expired meetings; the ledger stays valid."""

from __future__ import annotations

import psycopg

from tests.e2e.customers import customer
from tests.support.program import Site, until

# The meeting a year ago, with the id that it would have had: the first 48 bits of an id are its millisecond.
_AGE = """
WITH aged AS (
    SELECT m.id, (lpad(to_hex((extract(epoch FROM now() - interval '1 year') * 1000)::bigint), 12, '0')
        || substr(replace(m.id::text, '-', ''), 13))::uuid AS old_id
    FROM meetings m WHERE m.id = %(id)s
), freed AS (
    DELETE FROM host_reservations h USING aged WHERE h.meeting_id = aged.id
), checked AS (
    DELETE FROM orphan_checks o USING aged WHERE o.meeting_id = aged.id
)
UPDATE meetings m SET id = aged.old_id, start_at = m.start_at - interval '1 year',
    end_at = m.end_at - interval '1 year', status = 'ended', due_at = NULL, password = NULL,
    join_url = NULL
FROM aged WHERE m.id = aged.id RETURNING m.id
"""


def test_a_worker_removes_what_is_past_its_retention(site: Site) -> None:
    with site.serve(meeting_retention_days=30) as api, customer(site, api) as one:
        old, kept = one.create_meeting(), one.create_meeting()
        with psycopg.connect(site.database_url, autocommit=True) as db:
            db.execute("UPDATE retention_progress SET due_at = now()")
            [(old_id,)] = db.execute(_AGE, {"id": old.id}).fetchall()
            db.execute("UPDATE retention_progress SET due_at = now()")
        until(lambda: one.http.get(f"/meetings/{old_id}").status_code == 410, "it is removed")
        assert one.http.get(f"/meetings/{old_id}").json()["error"]["code"] == "gone"
        assert [each["id"] for each in one.http.get("/meetings").json()["data"]] == [kept.id]
        spent = one.http.get("/credits/transactions").json()["data"]
        assert {old.id, kept.id} <= {each["reference"]["id"] for each in spent}
    assert site.cli("credits", "verify")["is_sound"]
