"""Notes over HTTP: requested, automatic, billed by length, reported (rules 1/notes and 6/6)."""

from __future__ import annotations

import asyncio

import pytest

from meetcore.domain.requests.keys import Scope
from tests.support.api_harness import (
    BASE_URL,
    TIER_CREDITS,
    Customer,
    code_of,
    fields_of,
    new_key,
    until,
)
from tests.support.sandbox_recordings import a_recording, hold_meeting, note_in, recording_of, store_recording

NO_ID = "01890000-0000-7000-8000-000000000000"
RECORDED = TIER_CREDITS + 5


@pytest.mark.spec("1/notes", "1/op/note")
async def test_notes_are_queued_written_and_charged_by_the_begun_minute(customer: Customer) -> None:
    recording = await a_recording(customer)
    before = await customer.funds()
    answer = await customer.post("/notes", {"recording_id": recording["id"]})
    assert answer.status_code == 202
    queued = answer.json()
    assert (queued["status"], queued["language"], queued["error"]) == ("queued", "id", None)
    assert (queued["recording_id"], queued["meeting_id"]) == (recording["id"], recording["meeting_id"])
    assert (queued["summary"], queued["duration"], queued["credits_charged"]) == (None, None, None)
    note = await note_in(customer, queued["id"], "completed")
    assert (note["duration"], note["credits_charged"]) == (1, 1)
    assert (queued["written_by"], note["written_by"]) == (None, "rules")
    assert note["summary"]
    assert note["transcript"]
    assert {one["speaker"] for one in note["transcript"]} != {None}, "the provider's transcript has names"
    transcript = " ".join(one["text"] for one in note["transcript"])
    assert note["decisions"]
    assert note["action_items"]
    for one in (*note["decisions"], *note["action_items"]):
        assert one["quote"] in transcript, "word for word"
        assert one["at"] in {line["at"] for line in note["transcript"]}
    assert any(one["owner"] for one in note["action_items"])
    assert note["completed_at"] >= note["created_at"]
    after = await customer.funds()
    assert (after.balance, after.held, after.entries) == (before.balance - 1, 0, before.entries + 1)
    charge = (await customer.get("/credits/transactions")).json()["data"][0]
    assert (charge["kind"], charge["amount"]) == ("notulen_charge", -1)
    assert charge["reference"] == {"type": "note", "id": note["id"]}


@pytest.mark.spec("1/op/notes")
async def test_notes_are_listed_the_newest_first_and_by_their_recording(customer: Customer) -> None:
    one, other = await a_recording(customer), await a_recording(customer)
    made = [
        (await customer.post("/notes", body)).json()["id"]
        for body in (
            {"recording_id": one["id"]},
            {"recording_id": one["id"], "language": "en"},
            {"recording_id": other["id"]},
        )
    ]
    for note_id in made:
        await note_in(customer, note_id, "completed")
    listed = (await customer.get("/notes")).json()["data"]
    assert [note["id"] for note in listed] == made[::-1]
    assert listed[0] == (await customer.get(f"/notes/{made[2]}")).json()
    of_one = (await customer.get(f"/notes?recording_id={one['id']}")).json()["data"]
    assert [note["id"] for note in of_one] == [made[1], made[0]]
    assert {note["language"] for note in of_one} == {"id", "en"}
    of_meeting = f"/notes?meeting_id={one['meeting_id']}"
    assert (await customer.get(of_meeting)).json()["data"] == of_one
    page = (await customer.get(f"{of_meeting}&limit=1")).json()
    second = (await customer.get(f"{of_meeting}&cursor={page['next_cursor']}")).json()["data"]
    assert page["data"] + second == of_one
    assert (await customer.get(f"{of_meeting}&recording_id={one['id']}")).json()["data"] == of_one
    assert (await customer.get(f"{of_meeting}&recording_id={other['id']}")).json()["data"] == []
    for nothing in (NO_ID, "not-an-id", other["id"]):
        assert (await customer.get(f"/notes?meeting_id={nothing}")).json()["data"] == []
    assert set(fields_of(await customer.get("/notes?meeting_id=&recording_id="))) == {
        "meeting_id", "recording_id",
    }  # fmt: skip
    first = (await customer.get("/notes?limit=1")).json()
    second = (await customer.get(f"/notes?limit=5&cursor={first['next_cursor']}")).json()
    assert [note["id"] for note in second["data"]] == [made[1], made[0]]


async def test_a_note_is_read_as_markdown(customer: Customer) -> None:
    recording = await a_recording(customer)
    made = (await customer.post("/notes", {"recording_id": recording["id"]})).json()
    note = await note_in(customer, made["id"], "completed")
    answer = await customer.get(f"/notes/{note['id']}?format=markdown")
    assert answer.headers["Content-Type"] == "text/markdown; charset=utf-8"
    meeting = (await customer.get(f"/meetings/{note['meeting_id']}")).json()
    day = meeting["start_at_wib"][:10]
    assert answer.text.startswith(f"# Notulen: {meeting['title']}\n\nRapat: {day}\n\n")
    assert "## Keputusan" in answer.text
    assert (await customer.get(f"/notes/{note['id']}?format=json")).json() == note
    problems = {"format": ["must be one of json, markdown"]}
    assert fields_of(await customer.get(f"/notes/{note['id']}?format=pdf")) == problems


@pytest.mark.spec("7/409")
async def test_one_note_for_each_recording_and_language(customer: Customer) -> None:
    recording = await a_recording(customer)
    body = {"recording_id": recording["id"]}
    answers = await asyncio.gather(*(customer.post("/notes", body) for _ in range(6)))
    made = [answer.json() for answer in answers if answer.status_code == 202]
    assert len(made) == 1
    for answer in answers:
        if answer.status_code != 202:
            assert code_of(answer) == (409, "conflict")
            assert answer.json()["error"]["details"] == {"id": made[0]["id"]}
    await note_in(customer, made[0]["id"], "completed")
    assert code_of(await customer.post("/notes", body)) == (409, "conflict"), "nobody pays twice for the same"
    assert (await customer.post("/notes", body | {"language": "en"})).status_code == 202


@pytest.mark.spec("4/idem-replay")
async def test_the_same_key_is_the_same_note(customer: Customer) -> None:
    recording = await a_recording(customer)
    key, body = new_key(), {"recording_id": recording["id"]}
    first = await customer.post("/notes", body, idem=key)
    await note_in(customer, first.json()["id"], "completed")
    again = await customer.post("/notes", body, idem=key)
    assert (again.status_code, again.content) == (202, first.content)
    assert again.headers["Idempotent-Replayed"] == "true"
    other = await customer.post("/notes", body | {"language": "en"}, idem=key)
    assert code_of(other) == (422, "idempotency_key_reused")
    missing = new_key()
    for _ in range(2):
        assert code_of(await customer.post("/notes", {"recording_id": NO_ID}, idem=missing)) == (
            404,
            "not_found",
        )


@pytest.mark.spec("7/400", "5/8", "7/404")
async def test_notes_of_invalid_foreign_and_unknown_recordings(customer: Customer) -> None:
    recording = await store_recording(customer)
    other = await customer.harness.customer()
    assert fields_of(await customer.post("/notes", {})) == {"recording_id": ["is required"]}
    odd = await customer.post("/notes", {"recording_id": recording["id"], "language": "fr", "tone": "x"})
    assert fields_of(odd) == {
        "language": ["must be one of id, en"],
        "tone": ["is not a field of this operation"],
    }
    for recording_id in (NO_ID, "7", recording["id"] + "0"):
        assert code_of(await customer.post("/notes", {"recording_id": recording_id})) == (404, "not_found")
    assert code_of(await other.post("/notes", {"recording_id": recording["id"]})) == (404, "not_found")
    note = (await customer.post("/notes", {"recording_id": recording["id"]})).json()
    assert code_of(await other.get(f"/notes/{note['id']}")) == (404, "not_found")
    assert code_of(await customer.get("/notes/7")) == (404, "not_found")
    assert (await other.get("/notes")).json()["data"] == []


@pytest.mark.spec("5/5")
async def test_reading_and_creating_have_scopes_of_their_own(customer: Customer) -> None:
    recording = await store_recording(customer)
    reader = await customer.another_key((Scope.NOTULEN_READ,))
    writer = await customer.another_key((Scope.NOTULEN_WRITE,))
    body = {"recording_id": recording["id"]}
    assert code_of(await reader.post("/notes", body)) == (403, "insufficient_scope")
    assert (await writer.post("/notes", body)).status_code == 202
    assert code_of(await writer.get("/notes")) == (403, "insufficient_scope")
    assert (await reader.get("/notes")).status_code == 200


@pytest.mark.spec("5/7")
async def test_the_credits_and_the_cap_must_allow_it(customer: Customer) -> None:
    uncovered = await customer.harness.customer(credits=RECORDED)
    recording = await store_recording(uncovered, media_s=30.0)
    short = await uncovered.post("/notes", {"recording_id": recording["id"]})
    assert code_of(short) == (422, "insufficient_credits")
    assert short.json()["error"]["details"] == {
        "required": 1, "available": 0, "topup_url": f"{BASE_URL}/dashboard/credits",
    }  # fmt: skip
    recording = await store_recording(customer)
    capped = await customer.another_key(daily_cap=0)
    refused = await capped.post("/notes", {"recording_id": recording["id"]})
    assert code_of(refused) == (422, "credit_cap_exceeded")
    assert (await customer.get("/notes")).json()["data"] == []
    assert (await customer.funds()).held == 0


@pytest.mark.spec("4.1/1", "1/notes", "6/6")
async def test_auto_notulen_writes_notes_and_sends_events(customer: Customer) -> None:
    hook = await customer.make_webhook(event_types=["recording.ready", "note.completed", "note.failed"])
    meeting = await hold_meeting(customer, with_recording=False, auto_notulen=True)
    recording = await recording_of(customer, meeting)

    async def look() -> list[dict[str, object]]:
        return list((await customer.get(f"/notes?recording_id={recording['id']}")).json()["data"])

    note = (await until(look))[0]
    note = await note_in(customer, note["id"], "completed")
    assert (note["language"], note["credits_charged"]) == ("id", 1)

    async def delivered_types() -> list[str] | None:
        sent = (await customer.get(f"/webhooks/{hook['id']}/deliveries")).json()["data"]
        kinds = [one["event_type"] for one in sent]
        return kinds if len(kinds) == 2 else None

    assert await until(delivered_types) == ["note.completed", "recording.ready"]
