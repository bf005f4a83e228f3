"""Meetings, requests for them, hosts and providers; recordings, transcripts and notes.

Files have few ids, sizes and instants, so that doubles, growth, pauses and overlaps are frequent.
"""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from meetcore.domain.meetings.hosts import Host, PasswordRule
from meetcore.domain.meetings.meetings import (
    OPTION_ABILITIES,
    Meeting,
    MeetingOptions,
    MeetingRequest,
    MeetingStatus,
    ProviderAbilities,
    Provisioned,
)
from meetcore.domain.meetings.schedule import MAX_DAYS_AHEAD, WIB
from meetcore.domain.money.pricing import TierCatalogue
from meetcore.domain.notes.notes import ActionItem, Decision, Language, Note, NoteDraft, NoteStatus, NoteStep
from meetcore.domain.notes.recordings import RETENTION, FileKind, Recording, RecordingFile, RecordingStatus
from meetcore.domain.notes.transcripts import Transcript, Utterance
from meetcore.domain.texts import is_blank

__all__ = [
    "drafts", "host_pools", "hosts", "lengths_s", "meeting_requests", "meetings", "notes", "password_rules",
    "passwords", "provider_abilities", "provisioned", "recording_files", "recordings", "transcripts",
]  # fmt: skip

_NEEDED_ABILITY = {name: ability for names, ability, _ in OPTION_ABILITIES for name in names}
_IDS = st.uuids(version=4)
_CHARACTERS = st.characters(exclude_categories=("Cc", "Cs"))
_FLAGS = st.booleans()
_FIRST, _HOUR = datetime(2026, 12, 1, 2, tzinfo=UTC), timedelta(hours=1)
_TEXTS = st.text("ab \n✓", max_size=6)


def hosts(max_capacity: int = 6) -> SearchStrategy[Host]:
    """Draw a host with few seats, so that many fit equally well; it may be disabled."""
    return st.builds(
        Host, st.integers(1, 50).map(lambda number: UUID(int=number)), st.just("user"),
        st.integers(1, max_capacity), st.integers(1, 3), st.integers(0, 3), _FLAGS, st.integers(0, 3),
        st.none() | st.dates(), st.none() | st.datetimes(timezones=st.just(UTC)),
    )  # fmt: skip


def host_pools(max_size: int = 8, max_capacity: int = 6) -> SearchStrategy[list[Host]]:
    """Draw up to `max_size` hosts with different ids."""
    return st.lists(hosts(max_capacity), max_size=max_size, unique_by=lambda host: host.id)


def password_rules() -> SearchStrategy[PasswordRule]:
    """Draw a provider's rule: an alphabet without doubles, and lengths up to 20."""
    alphabets = st.text(min_size=1, max_size=100).map(lambda text: "".join(dict.fromkeys(text)))
    lengths = st.tuples(st.integers(1, 10), st.integers(0, 10))
    return st.builds(lambda alphabet, drawn: PasswordRule(alphabet, drawn[0], sum(drawn)), alphabets, lengths)


def passwords(rule: PasswordRule) -> SearchStrategy[str]:
    """Draw a password by the rule."""
    return st.text(rule.alphabet, min_size=rule.min_length, max_size=rule.max_length)


def provider_abilities() -> SearchStrategy[ProviderAbilities]:
    """Draw a provider with any abilities."""
    return st.builds(
        ProviderAbilities, st.just("any"), st.none() | password_rules(), *[_FLAGS] * 6,
        st.none() | st.integers(1, 100), st.none() | st.integers(6, 10),
    )  # fmt: skip


@st.composite
def meeting_requests(
    draw: st.DrawFn, catalogue: TierCatalogue, abilities: ProviderAbilities, now: datetime
) -> MeetingRequest:
    """Draw a request that can be planned: a tier on sale, a start in time, options that the provider has."""
    # The first whole minute that is not past, to the last one that is not too far ahead.
    first = now.astimezone(UTC) + timedelta(minutes=1, microseconds=-1)
    minutes_ahead = st.integers(0, MAX_DAYS_AHEAD * 24 * 60 - 1)
    local = (first + timedelta(minutes=draw(minutes_ahead))).astimezone(WIB)
    flags = {name: draw(_FLAGS) and getattr(abilities, needed) for name, needed in _NEEDED_ABILITY.items()}
    return MeetingRequest(
        title=draw(st.text(_CHARACTERS, min_size=1, max_size=20).filter(lambda text: not is_blank(text))),
        date=local.date().isoformat(),
        start_time=f"{local:%H:%M}",
        pricing_tier_id=draw(st.sampled_from([tier.id for tier in catalogue.on_sale()])),
        description=draw(st.none() | st.text(_CHARACTERS | st.sampled_from("\t\n\r"), max_size=20)),
        password=None if abilities.password is None else draw(st.none() | passwords(abilities.password)),
        options=MeetingOptions(**flags),
    )


def provisioned() -> SearchStrategy[Provisioned]:
    """Draw a provider's result of a creation."""
    numbers = st.text("0123456789", min_size=1, max_size=12)
    links = numbers.map("https://meet.example/".__add__)
    return st.builds(Provisioned, numbers, links, st.none() | st.text(min_size=1, max_size=10))


def meetings(start_at: datetime, **fixed: SearchStrategy[Any]) -> SearchStrategy[Meeting]:
    """Draw a stored meeting in any state that starts at this instant and lasts at most a day."""
    texts, figures = st.none() | st.text(max_size=10), st.integers(1, 1_000)
    fields: dict[str, SearchStrategy[Any]] = {
        **dict.fromkeys(("id", "account_id", "api_key_id"), _IDS),
        **dict.fromkeys(("host_id", "charge_id"), st.none() | _IDS),
        **dict.fromkeys(("description", "password", "host_key", "join_url", "provider_meeting_id"), texts),
        "status": st.sampled_from(MeetingStatus),
        "title": st.text(min_size=1, max_size=10),
        "duration": st.integers(1, 24 * 60),
        "capacity": st.none() | figures,
        "pricing_tier_id": st.just("standard-100"),
        "credits": figures,
        "options": st.builds(MeetingOptions, **dict.fromkeys(_NEEDED_ABILITY, _FLAGS)),
        "provider": st.sampled_from(["zoom", "jitsi", "sandbox"]),
        "created_at": st.timedeltas(timedelta(0), timedelta(days=365)).map(lambda ago: start_at - ago),
        "credits_refunded": st.none() | st.integers(0, 1_000),
    }

    def meeting(drawn: dict[str, Any]) -> Meeting:
        end_at = start_at + timedelta(minutes=drawn["duration"])
        return Meeting(**{"start_at": start_at, "end_at": end_at, **drawn})

    return st.fixed_dictionaries({**fields, **fixed}).map(meeting)


def lengths_s(max_s: float = 14_400) -> SearchStrategy[float]:
    """Draw seconds of media: none, a moment, a whole minute and its neighbours, hours."""
    edges = st.sampled_from([0.0, 0.0005, 0.002, 59.999, 60.0, 60.001, 60.5])
    return edges | st.floats(0, max_s, allow_nan=False)


def recording_files(ids: str = "abcd") -> SearchStrategy[RecordingFile]:
    """Draw a file as a provider reports it, not measured."""
    hours, urls = st.integers(0, 4), st.sampled_from(["https://f/1", "https://f/2"])
    return st.builds(
        lambda id_, kind, size, start, length, url, session_id: RecordingFile(
            id_, kind, size, _FIRST + start * _HOUR, _FIRST + (start + length) * _HOUR, url,
            session_id=session_id,
        ),
        st.sampled_from(ids), st.sampled_from(FileKind), st.integers(0, 3), hours, hours, urls,
        st.sampled_from(["", "/a//b==", "cc=="]),
    )  # fmt: skip


def recordings(status: RecordingStatus | None = None) -> SearchStrategy[Recording]:
    """Draw a recording of up to six files, some of them measured."""
    measured = st.builds(
        lambda file, media_s: evolve(file, media_s=media_s),
        recording_files("abcdef"), st.none() | lengths_s(),
    )  # fmt: skip
    files = st.lists(measured, max_size=6, unique_by=lambda file: file.provider_file_id)
    return st.builds(
        lambda status, files: Recording(
            UUID(int=1), UUID(int=2), UUID(int=3), "zoom", "85746065432", status, tuple(files), _FIRST,
            _FIRST + _HOUR, _FIRST + RETENTION,
        ),
        st.sampled_from(RecordingStatus) if status is None else st.just(status), files,
    )  # fmt: skip


def transcripts() -> SearchStrategy[Transcript]:
    """Draw up to five utterances in the order of time, some of them empty."""
    seconds = st.floats(0, 10_000, allow_nan=False)
    utterances = st.builds(
        lambda at_s, text, speaker: Utterance(at_s, at_s + 1, text, speaker),
        seconds, _TEXTS, st.none() | _TEXTS,
    )  # fmt: skip
    return st.lists(utterances, max_size=5).map(lambda many: tuple(sorted(many, key=lambda one: one.at_s)))


def drafts() -> SearchStrategy[NoteDraft]:
    """Draw the result of a writer."""
    seconds, maybe = st.floats(0, 10_000, allow_nan=False), st.none() | _TEXTS
    decisions = st.lists(st.builds(Decision, _TEXTS, _TEXTS, seconds), max_size=3).map(tuple)
    item = st.builds(ActionItem, _TEXTS, _TEXTS, seconds, maybe, maybe, st.none() | st.dates())
    items = st.lists(item, max_size=3).map(tuple)
    return st.builds(NoteDraft, _TEXTS, decisions, items, st.lists(_TEXTS, max_size=3).map(tuple))


def notes(status: NoteStatus | None = None) -> SearchStrategy[Note]:
    """Draw a note between two decisions, at any step, with or without content."""
    ids = {"id": 4, "account_id": 2, "api_key_id": 5, "recording_id": 1, "meeting_id": 3}
    return st.builds(
        Note, **{name: st.just(UUID(int=number)) for name, number in ids.items()},
        language=st.sampled_from(Language),
        status=st.sampled_from(NoteStatus) if status is None else st.just(status),
        step=st.sampled_from(NoteStep), duration_s=st.integers(1, 100_000), created_at=st.just(_FIRST),
        tries=st.integers(0, 9), draft=st.none() | drafts(), transcript=transcripts(),
        written_by=st.sampled_from([None, "rules", "gpt-4o-mini"]),
    )  # fmt: skip
