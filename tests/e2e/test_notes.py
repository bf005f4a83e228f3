"""From a meeting to its notes, through API, broker, worker, Zoom, AI provider and webhook."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from attrs import frozen

from meetcore.client import Gone, Note, Recording
from meetcore.domain.webhooks.signature import verify
from tests.e2e.ai_stack import TRANSCRIPTION, WRITING, AiStack, ai_stack
from tests.e2e.customers import Customer, customer
from tests.e2e.outbox import ask
from tests.e2e.receiver import Post, Receiver
from tests.e2e.recorded import SOUND, SOUND_S, VTT, Stretch, take_place
from tests.e2e.zoom_stack import ZoomStack, zoom_stack
from tests.support.program import Running, Site, until

KINDS = ("recording.ready", "note.completed", "note.failed")
TIER_CREDITS, RECORDING_CREDITS = 10, 5
TIMEOUT_S = 60.0
# Secrets shared only with Zoom or the AI provider.
SECRETS = re.compile(r"eyJ[\w-]{32}\.[\w-]{32}|FAKE|/rec/download|stand-in-secret|sk-stand-in")

# Each costs a retry or a repair; none fails the note.
BAD_DAY: tuple[dict[str, object], ...] = (
    {"fault": "rate_limit", "call": TRANSCRIPTION, "retry_after": "2"},
    {"fault": "500", "call": TRANSCRIPTION},
    {"fault": "cut", "call": TRANSCRIPTION},
    {"fault": "not_json", "call": WRITING},
    {"fault": "garbage", "call": WRITING},
    {"fault": "out_of_shape", "call": WRITING},
)


@frozen
class Setup:
    """A customer of a service that writes notes, and the service's peers."""

    site: Site
    customer: Customer
    api: Running
    worker: Running
    zoom: ZoomStack
    ai: AiStack
    receiver: Receiver
    secret: str

    def hold(self, *stretches: Stretch, **fields: object) -> Recording:
        """Hold a meeting with notes; return its visible recording."""
        meeting = take_place(
            self.site, self.zoom, self.api.url, self.customer, *stretches, auto_notulen=True, **fields
        )
        find = self.customer.api.recordings.list
        return until(lambda: list(find(meeting_id=meeting.id)), "the recording is ready", TIMEOUT_S)[0]

    def note_of(self, recording: Recording) -> Note:
        """Return the finished automatic note."""
        find = self.customer.api.notes.list

        def over() -> list[Note]:
            found = find(recording_id=recording.id)
            return [each for each in found if each.status in ("completed", "failed")]

        [note] = until(over, "the note is over", TIMEOUT_S)
        return note

    def event(self, kind: str, id_: str) -> dict[str, Any]:
        """Return the data of the one event of a kind about an object; checks its signature."""

        def posts() -> list[Post]:
            found = [post for post in self.receiver.at("notified") if json.loads(post.body)["type"] == kind]
            return [post for post in found if json.loads(post.body)["data"]["id"] == id_]

        [post] = until(posts, f"{kind} is notified", TIMEOUT_S)
        verify([self.secret], post.body, post.headers["X-Service-Signature"], int(post.at))
        return dict(json.loads(post.body)["data"])

    def money(self) -> list[tuple[object, ...]]:
        """Return balance and holds."""
        return ask(self.site, "SELECT balance, held FROM accounts WHERE id = %s", self.customer.account_id)

    def logs(self) -> str:
        """Return the program's log."""
        ended = (self.api, self.worker)
        return "".join(each.err.read_text() + each.out.read_text() for each in ended)


@pytest.fixture
def setup(site: Site, receiver: Receiver, rabbitmq_url: str) -> Iterator[Setup]:
    with ExitStack() as stack:
        zoom, ai = stack.enter_context(zoom_stack()), stack.enter_context(ai_stack())
        more = {
            "broker_url": rabbitmq_url, "note_retry_schedule": ",".join(["1"] * 20), "log_level": "debug",
            "media_cpu_percent": 100,
        }  # fmt: skip
        settings = receiver.settings | zoom.settings | ai.settings | more
        api = stack.enter_context(site.serve(**settings))
        worker = stack.enter_context(site.worker(**settings))
        who = stack.enter_context(customer(site, api))
        secret = str(who.hook(receiver.url("notified"), *KINDS).secret)
        yield Setup(site, who, api, worker, zoom, ai, receiver, secret)


@pytest.mark.spec(
    "1/notes", "6/6", "1/op/notes", "1/op/note", "1/op/recordings", "1/op/download-url", "4.1/1"
)
def test_a_meeting_becomes_notes_despite_ai_provider_faults(setup: Setup) -> None:
    setup.ai.plan(*BAD_DAY)
    [(funds, _)] = setup.money()
    recording = setup.hold(Stretch(), Stretch(), with_recording=False)
    minutes = -(-int(2 * SOUND_S) // 60)
    assert (recording.status, recording.duration) == ("available", minutes), "the media's, not Zoom's 80"
    assert recording.size_bytes == 2 * len(SOUND)
    assert setup.event("recording.ready", recording.id)["duration"] == minutes

    note = setup.note_of(recording)
    assert (note.status, note.error, note.duration) == ("completed", None, minutes)
    assert setup.ai.waiting() == [], "every fault was met"
    assert setup.ai.done(TRANSCRIPTION) == 2
    assert setup.event("note.completed", note.id) == setup.customer.http.get(f"/notes/{note.id}").json()
    check_times(note)
    check_markdown(setup, note)
    check_charge(setup, note, int(str(funds)), minutes)
    check_download(setup, recording)
    check_deletion(setup, recording)
    assert SECRETS.search(setup.logs()) is None
    assert "Kalimat ke-" not in setup.logs(), "nor what was said"


def check_times(note: Note) -> None:
    """Check that both files are transcribed from their start, and the second follows the first."""
    begins = [line.at for line in note.transcript if line.text.startswith("Kalimat ke-1 dimulai")]
    assert begins == [0, int(SOUND_S)]
    assert [line.at for line in note.transcript] == sorted(line.at for line in note.transcript)
    assert {line.speaker for line in note.transcript} == {None}
    assert note.transcript[-1].at < 2 * SOUND_S


def check_markdown(setup: Setup, note: Note) -> None:
    page = setup.customer.api.notes.markdown(note.id)
    assert page.startswith("# Notulen: ")
    assert note.summary
    assert note.summary in page


def check_charge(setup: Setup, note: Note, funds: int, minutes: int) -> None:
    """Check for one charge as estimated, in begun minutes of media."""
    estimate = setup.customer.api.credits.estimate_notulen(duration=minutes)
    paid = [each for each in setup.customer.api.credits.transactions() if each.kind == "notulen_charge"]
    [charge] = [each for each in paid if each.reference.id == note.id]
    assert estimate.credits == -charge.amount == note.credits_charged == minutes
    assert setup.money() == [(funds - TIER_CREDITS - RECORDING_CREDITS - minutes, 0)]


def check_download(setup: Setup, recording: Recording) -> None:
    """Check that the link returns the file at Zoom, also by ranges."""
    link = setup.customer.api.recordings.download_url(recording.id)
    assert link.url.startswith(setup.api.url)
    with httpx.Client(trust_env=False, timeout=20) as public:
        first = public.get(link.url)
        second = public.get(first.links["next"]["url"])
        part = public.get(link.url, headers={"Range": "bytes=1000-1999"})
        tail = public.get(link.url, headers={"Range": "bytes=-500"})
    assert (first.status_code, second.status_code) == (200, 200)
    assert first.content == second.content == SOUND
    assert "next" not in second.links
    assert (part.status_code, part.content) == (206, SOUND[1000:2000])
    assert (tail.status_code, tail.content) == (206, SOUND[-500:])
    pages = [setup.customer.http.get(path).text for path in ("/recordings", "/notes")]
    posts = [post.body.decode() + repr(post.headers) for post in setup.receiver.posts]
    answers = [repr(each.headers) + repr(each.history) for each in (first, second, part, tail)]
    output = "\n".join([link.url, *pages, *posts, *answers])
    assert SECRETS.search(output) is None


def check_deletion(setup: Setup, recording: Recording) -> None:
    """Check that the recording is gone for the customer at once, and at Zoom soon."""
    [number] = [each["id"] for each in setup.zoom.meetings()]
    link = setup.customer.api.recordings.download_url(recording.id)
    setup.customer.api.recordings.delete(recording.id)
    assert setup.customer.api.recordings.get(recording.id).status == "expired"
    with pytest.raises(Gone):
        setup.customer.api.recordings.download_url(recording.id)
    assert httpx.get(link.url, trust_env=False, timeout=20).status_code == 410
    until(lambda: not setup.zoom.files(number), "the files are deleted at Zoom")


@pytest.mark.spec("1/notes", "6/6")
def test_a_zoom_transcript_is_not_transcribed_again(setup: Setup) -> None:
    note = setup.note_of(setup.hold(Stretch(vtt=VTT), Stretch(vtt=VTT)))
    assert (note.status, note.duration, note.credits_charged) == ("completed", 2, 2)
    # Once, or again where an answer came too late for a machine that is busy.
    assert set(setup.ai.counts()["calls"]) == {WRITING}, "nothing was transcribed"
    speakers = [line.speaker for line in note.transcript]
    assert set(speakers) == {"Sari Wijaya", "Budi Santoso", "Dewi Lestari"}
    begins = [line.at for line in note.transcript if line.text.startswith("Selamat pagi semuanya")]
    assert begins == [0, int(SOUND_S)]
    assert {each.owner for each in note.action_items} <= set(speakers)
    setup.event("note.completed", note.id)


@pytest.mark.spec("1/notes")
def test_a_refusal_by_the_ai_provider_costs_nothing(setup: Setup) -> None:
    setup.ai.plan({"fault": "refusal", "call": WRITING, "times": None})
    [(funds, _)] = setup.money()
    note = setup.note_of(setup.hold(Stretch()))
    assert (note.status, note.credits_charged, note.summary) == ("failed", 0, None)
    assert note.error
    assert "refused" in note.error
    assert setup.event("note.failed", note.id)["error"] == note.error
    assert setup.money() == [(int(str(funds)) - TIER_CREDITS - RECORDING_CREDITS, 0)]
    spent = "SELECT sum(spent)::int, sum(held)::int FROM cap_usage WHERE account_id = %s"  # of all days
    assert ask(setup.site, spent, setup.customer.account_id) == [(TIER_CREDITS + RECORDING_CREDITS, 0)]
    setup.ai.clear_faults()
    assert note.recording_id is not None
    again = setup.customer.api.notes.create(recording_id=note.recording_id)
    assert again.id != note.id, "it may be asked for once more"
    get = setup.customer.api.notes.get
    until(lambda: get(again.id).status == "completed", "it is written", TIMEOUT_S)
    assert get(again.id).credits_charged == 1
