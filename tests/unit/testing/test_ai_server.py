"""The stand-in for an AI provider answers as OpenAI's documents specify, and its switches work.

What an adapter meets there is tested where the adapter is.
"""

import asyncio
import io
import json
import wave
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from meetcore.testing.ai_content import form_of
from meetcore.testing.ai_server import AiStandIn, Fault, ai_stand_in
from meetcore.testing.sounds import silence, sound_length_s

SCHEMA = {
    "type": "object",
    "properties": {
        "summary": {"type": "string"},
        "decisions": {"type": "array", "items": {"$ref": "#/$defs/D"}},
        "owner": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["summary", "decisions", "owner"],
    "additionalProperties": False,
    "$defs": {
        "D": {
            "type": "object",
            "properties": {"utterance": {"type": "integer"}, "quote": {"type": "string"}},
            "required": ["utterance", "quote"],
            "additionalProperties": False,
        }
    },
}
LINES = '[3,"Budi","Kita mulai."]\n[4,null,"Kita setuju."]\nno JSON\n[1,2]'


@pytest.fixture
async def ai() -> AsyncIterator[AiStandIn]:
    async with ai_stand_in() as stand_in:
        yield stand_in


@pytest.fixture
async def http(ai: AiStandIn) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {ai.models.api_key}"}
    async with httpx.AsyncClient(base_url=ai.url, headers=headers, trust_env=False) as client:
        yield client


async def transcribe(
    http: httpx.AsyncClient, sound: bytes | None, name: str = "a.ogg", **changes: str
) -> httpx.Response:
    fields = {"model": "whisper-1", "response_format": "verbose_json", **changes}
    files = {"another": ("a.ogg", b"")} if sound is None else {"file": (name, sound)}
    return await http.post("/v1/audio/transcriptions", data=fields, files=files)


async def write(http: httpx.AsyncClient, schema: object = SCHEMA, **changes: Any) -> httpx.Response:
    shape = {"name": "notes", "strict": True, "schema": schema}
    body = {
        "model": "gpt-4o-mini",
        "messages": [{"role": "system", "content": "Write."}, {"role": "user", "content": LINES}],
        "response_format": {"type": "json_schema", "json_schema": shape},
    }
    return await http.post("/v1/chat/completions", json={**body, **changes})


def wav(length_s: float) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(round(16_000 * length_s)))
    return file.getvalue()


@pytest.mark.parametrize("sound", [silence(12.5), wav(12.5)])
async def test_a_sound_is_transcribed_for_its_true_length(http: httpx.AsyncClient, sound: bytes):
    body = (await transcribe(http, sound)).json()
    assert body["duration"] == pytest.approx(12.5)
    assert [(each["start"], each["end"]) for each in body["segments"]] == [(0, 5), (5, 10), (10, 12.5)]
    assert body["text"].startswith("Kalimat ke-1 dimulai pada detik 0. Kalimat ke-2")
    assert (await transcribe(http, sound, response_format="json")).json() == {"text": body["text"]}


async def test_what_the_real_one_refuses_is_refused(http: httpx.AsyncClient, ai: AiStandIn):
    sound = silence(1)
    assert (await transcribe(http, bytes(25 * 1024 * 1024 + 1))).status_code == 413
    assert (await transcribe(http, b"no sound")).json()["error"]["message"] == "Invalid file format."
    assert (await transcribe(http, b"RIFF no sound")).status_code == 400
    assert (await transcribe(http, sound, "a.opus")).json()["error"]["message"] == "Invalid file format."
    assert (await transcribe(http, silence(0.05))).json()["error"]["code"] == "audio_too_short"
    assert (await transcribe(http, sound, model="nobody")).json()["error"]["code"] == "model_not_found"
    plain = (await transcribe(http, sound, model=ai.models.plain)).json()["error"]
    assert (plain["code"], plain["param"]) == ("unsupported_value", "response_format")
    assert (await transcribe(http, sound, model=ai.models.plain, response_format="json")).status_code == 200
    assert (await transcribe(http, None)).status_code == 400
    wrong = await http.post("/v1/chat/completions", headers={"Authorization": "Bearer x"}, json={})
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (401, "invalid_api_key")
    assert (await write(http, model="nobody")).status_code == 404
    assert (await http.get("/v1/models")).status_code == 404
    assert ai.tally.done.total() == 1


@pytest.mark.parametrize("schema", [
    {}, {"type": "array"}, {**SCHEMA, "additionalProperties": True}, {**SCHEMA, "required": ["summary"]},
    {**SCHEMA, "$defs": {"D": {"type": "object", "properties": {"quote": {}}}}},
])  # fmt: skip
async def test_a_schema_that_is_not_strict_is_refused(http: httpx.AsyncClient, schema: dict[str, Any]):
    answer = await write(http, schema)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "response_format")


async def test_an_answer_has_the_schema_and_the_text_of_the_prompt(http: httpx.AsyncClient):
    choice = (await write(http)).json()["choices"][0]
    assert choice["finish_reason"] == "stop"
    assert json.loads(choice["message"]["content"]) == {
        "summary": "Kita mulai. Kita setuju.",
        "decisions": [{"utterance": 4, "quote": "Kita setuju."}],
        "owner": "Budi",
    }
    unstrict = {"type": "json_schema", "json_schema": {"schema": SCHEMA}}
    assert (await write(http, response_format=unstrict)).status_code == 400


async def test_calls_are_counted_and_what_is_done_twice_is_noticed(http: httpx.AsyncClient):
    await http.put("/stand-in/terms", json={"is_held": True})
    calls = asyncio.gather(transcribe(http, silence(1)), transcribe(http, silence(2)), write(http))
    async with asyncio.timeout(20):
        while (await http.get("/stand-in/counts")).json()["in_flight"] < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await http.put("/stand-in/terms", json={"is_held": False})
    await calls
    await http.post("/stand-in/faults", json={"fault": "500", "call": "transcriptions"})
    for _ in range(2):
        await transcribe(http, silence(2))
    counts = (await http.get("/stand-in/counts")).json()
    assert counts["calls"] == {"transcriptions": 4, "completions": 1}
    assert counts["done"] == {"transcriptions": 3, "completions": 1}
    assert (counts["repeats"], counts["most_in_flight"], counts["in_flight"]) == (1, 3, 0)
    assert counts["transcribed_s"] == pytest.approx(5)
    assert len((await http.get("/stand-in/conversations")).json()) == 1


async def test_every_fault_can_be_had_on_demand(http: httpx.AsyncClient):
    for fault in [*Fault.FAULTS, "503"]:
        planned = {"fault": fault, "call": "completions", "slow_s": 0.01}
        assert (await http.post("/stand-in/faults", json=planned)).json() == 1
        assert (await transcribe(http, silence(1))).status_code == 200
        try:
            answer = await asyncio.wait_for(write(http), 0.5 if fault == "hang" else 10)
            result: object = answer.status_code, len(answer.content), answer.content[:6]
        except (httpx.RemoteProtocolError, TimeoutError) as error:
            result = type(error)
        assert result != _as_it_should_be(await write(http)) or fault == "slow", fault
    assert (await http.post("/stand-in/faults", json={"fault": "nonsense"})).status_code == 400
    assert (await http.post("/stand-in/faults", json={"fault": "hang", "call": "x"})).status_code == 400
    assert (await http.get("/stand-in/nothing")).status_code == 404


def _as_it_should_be(answer: httpx.Response) -> object:
    assert answer.status_code == 200
    return answer.status_code, len(answer.content), answer.content[:6]


async def test_a_fault_waits_for_its_marker(ai: AiStandIn, http: httpx.AsyncClient):
    ai.faults.plan(Fault("rate_limit", marker="rahasia", times=None, retry_after="9"))
    assert (await write(http)).status_code == 200
    for _ in range(2):
        answer = await write(http, messages=[{"role": "user", "content": "rahasia"}])
        assert (answer.status_code, answer.headers["Retry-After"]) == (429, "9")
    assert len((await http.get("/stand-in/faults")).json()) == 1
    await http.delete("/stand-in/faults")
    assert ai.faults.planned == ()


def test_a_form_is_read_byte_for_byte():
    head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
    body = head + b"\r\n--a\n\x00\r\n" + b"\r\n--b--\r\n"
    assert form_of('multipart/form-data; boundary="b"', body).file == b"\r\n--a\n\x00\r\n"
    assert form_of("application/json", b"{}").file is None


@pytest.mark.parametrize("length_s", [0.02, 1, 5.01, 600])
def test_silence_is_as_long_as_declared(length_s: float):
    assert sound_length_s(silence(length_s)) == pytest.approx(length_s, abs=0.001)


async def test_a_completion_without_messages_is_refused(http: httpx.AsyncClient):
    answer = await http.post("/v1/chat/completions", json={"model": "gpt-4o-mini"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "messages")
