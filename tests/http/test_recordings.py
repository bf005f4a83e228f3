"""Recordings over HTTP: read, downloaded, deleted, past their retention (rules 1/notes and 7/410)."""

from __future__ import annotations

from datetime import datetime, timedelta
from urllib.parse import urlsplit

import httpx
import pytest

from meetcore.domain.requests.keys import Scope
from tests.support.api_harness import BASE_URL, Customer, code_of, fields_of, new_key, until
from tests.support.sandbox_recordings import a_note, a_recording, hold_meeting, recording_of, store_recording

NO_ID = "01890000-0000-7000-8000-000000000000"


async def fetch(customer: Customer, url: str, **headers: str) -> httpx.Response:
    """Get a link as a browser would: without a key."""
    parts = urlsplit(url)
    return await customer.http.get(f"{BASE_URL}{parts.path}?{parts.query}", headers=headers)


async def link_to(customer: Customer, recording_id: str) -> str:
    answer = await customer.get(f"/recordings/{recording_id}/download-url")
    assert answer.status_code == 200, answer.text
    return str(answer.json()["url"])


@pytest.mark.spec("1/op/recordings")
async def test_a_recording_has_its_meeting_and_its_measured_length(customer: Customer) -> None:
    meeting = await hold_meeting(customer)
    recording = await recording_of(customer, meeting)
    assert recording["meeting_id"] == meeting["id"]
    assert (recording["status"], recording["duration_unit"]) == ("available", "minutes")
    assert recording["duration"] == 1, "less than a minute of media is one begun minute"
    assert recording["size_bytes"] > 10_000
    kept = datetime.fromisoformat(recording["expires_at"]) - datetime.fromisoformat(recording["recorded_at"])
    assert kept == timedelta(days=90)
    assert (await customer.get(f"/recordings/{recording['id']}")).json() == recording
    assert (await customer.get("/recordings")).json() == {"data": [recording], "next_cursor": None}


@pytest.mark.spec("1/op/recordings")
async def test_recordings_are_listed_the_newest_first_page_by_page(customer: Customer) -> None:
    made = [await store_recording(customer) for _ in range(3)]
    first = (await customer.get("/recordings?limit=2")).json()
    second = (await customer.get(f"/recordings?limit=2&cursor={first['next_cursor']}")).json()
    assert [one["id"] for one in (*first["data"], *second["data"])] == [one["id"] for one in reversed(made)]
    assert second["next_cursor"] is None
    assert fields_of(await customer.get("/recordings?sort=asc")) == {
        "sort": ["is not a parameter of this list"]
    }
    assert (await customer.get("/recordings?meeting_id=no-id")).json()["data"] == []


@pytest.mark.spec("5/8", "7/404")
async def test_a_recording_of_another_account_is_not_found(customer: Customer) -> None:
    recording = await store_recording(customer)
    other = await customer.harness.customer()
    for path in ("", "/download-url"):
        assert code_of(await other.get(f"/recordings/{recording['id']}{path}")) == (404, "not_found")
        assert code_of(await customer.get(f"/recordings/{NO_ID}{path}")) == (404, "not_found")
        assert code_of(await customer.get(f"/recordings/7{path}")) == (404, "not_found")
    assert code_of(await other.delete(f"/recordings/{recording['id']}")) == (404, "not_found")
    assert (await other.get(f"/recordings?meeting_id={recording['meeting_id']}")).json()["data"] == []


@pytest.mark.spec("5/5")
async def test_reading_and_deleting_have_scopes_of_their_own(customer: Customer) -> None:
    recording = await store_recording(customer)
    reader = await customer.another_key((Scope.RECORDINGS_READ,))
    writer = await customer.another_key((Scope.RECORDINGS_WRITE,))
    assert (await reader.get(f"/recordings/{recording['id']}")).status_code == 200
    assert code_of(await reader.delete(f"/recordings/{recording['id']}")) == (403, "insufficient_scope")
    assert code_of(await writer.get(f"/recordings/{recording['id']}")) == (403, "insufficient_scope")
    assert (await writer.delete(f"/recordings/{recording['id']}")).status_code == 204


@pytest.mark.spec("1/op/download-url")
async def test_a_link_downloads_without_a_key(customer: Customer) -> None:
    recording = await a_recording(customer)
    answer = await customer.get(f"/recordings/{recording['id']}/download-url")
    link = answer.json()
    assert answer.headers["Cache-Control"] == "no-store"
    left = datetime.fromisoformat(link["expires_at"]) - datetime.now().astimezone()
    assert timedelta(minutes=14) < left <= timedelta(minutes=15)
    whole = await fetch(customer, link["url"])
    assert (whole.status_code, len(whole.content)) == (200, recording["size_bytes"])
    assert (whole.headers["Accept-Ranges"], whole.headers["Cache-Control"]) == ("bytes", "no-store")
    assert whole.headers["Content-Disposition"].startswith("attachment")
    part = await fetch(customer, link["url"], Range="bytes=100-199")
    assert (part.status_code, part.content) == (206, whole.content[100:200])
    assert part.headers["Content-Range"] == f"bytes 100-199/{recording['size_bytes']}"
    assert (await fetch(customer, link["url"], Range="bytes=-5")).content == whole.content[-5:]
    assert (await fetch(customer, link["url"], Range="bytes=99999999-")).status_code == 416


@pytest.mark.spec("7/410")
async def test_a_deleted_recording_is_gone_at_once(customer: Customer) -> None:
    recording = await a_recording(customer)
    url = await link_to(customer, recording["id"])
    path = f"/recordings/{recording['id']}"
    key = new_key()
    assert (await customer.delete(path, idem=key)).status_code == 204
    assert (await customer.delete(path, idem=key)).headers["Idempotent-Replayed"] == "true"
    assert (await customer.get(path)).json() == recording | {"status": "expired"}
    assert code_of(await customer.get(f"{path}/download-url")) == (410, "gone")
    assert code_of(await fetch(customer, url)) == (410, "gone")
    assert code_of(await customer.post("/notes", {"recording_id": recording["id"]})) == (410, "gone")
    assert (await customer.delete(path)).status_code == 204, "again is the same"

    async def is_removed() -> bool:
        rows = await customer.harness.query("SELECT due_at FROM recordings WHERE id = %s", recording["id"])
        return rows[0]["due_at"] is None

    await until(is_removed)


async def test_deleting_with_notes_erases_them_and_their_events(customer: Customer) -> None:
    note = await a_note(customer)
    events = "SELECT id FROM events WHERE account_id = %s AND kind = 'note.completed'"
    assert len(await customer.harness.query(events, customer.account_id)) == 1
    path = f"/recordings/{note['recording_id']}"
    assert fields_of(await customer.delete(f"{path}?with_notes=yes")) == {
        "with_notes": ["must be true or false"]
    }
    assert fields_of(await customer.delete(f"{path}?notes=true")) == {
        "notes": ["is not a parameter of this operation"]
    }
    assert (await customer.delete(f"{path}?with_notes=true")).status_code == 204
    assert code_of(await customer.get(f"/notes/{note['id']}")) == (410, "gone")
    assert (await customer.get("/notes")).json()["data"] == []
    assert await customer.harness.query(events, customer.account_id) == []
    kept = (await customer.get("/credits/transactions?kind=notulen_charge")).json()["data"]
    assert [one["reference"] for one in kept] == [{"type": "note", "id": note["id"]}], "only the ledger stays"


async def test_the_same_key_for_another_way_of_deleting_is_another_request(customer: Customer) -> None:
    recording = await store_recording(customer)
    path, key = f"/recordings/{recording['id']}", new_key()
    assert (await customer.delete(path, idem=key)).status_code == 204
    answer = await customer.delete(f"{path}?with_notes=true", idem=key)
    assert code_of(answer) == (422, "idempotency_key_reused")
