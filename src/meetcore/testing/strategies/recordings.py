"""Files, recordings, their transcripts and the notes on them.

Files come from few ids, sizes and instants, so that doubles, growth, pauses and overlaps are frequent. Owns
no measure: `media_s` is drawn.
"""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from meetcore.domain.notes.notes import ActionItem, Decision, Language, Note, NoteDraft, NoteStatus, NoteStep
from meetcore.domain.notes.recordings import RETENTION, FileKind, Recording, RecordingFile, RecordingStatus
from meetcore.domain.notes.transcripts import Transcript, Utterance

__all__ = ["drafts", "lengths_s", "notes", "recording_files", "recordings", "transcripts"]

_FIRST = datetime(2026, 12, 1, 2, tzinfo=UTC)
_TICK = timedelta(hours=1)
_TEXTS = st.text("ab \n✓", max_size=6)


def lengths_s(max_s: float = 14_400) -> SearchStrategy[float]:
    """Seconds of media: none, a moment, a whole minute and a tick beside it, hours."""
    edges = st.sampled_from([0.0, 0.0005, 0.002, 59.999, 60.0, 60.001, 60.5])
    return edges | st.floats(0, max_s, allow_nan=False)


def recording_files(ids: str = "abcd") -> SearchStrategy[RecordingFile]:
    """Files that a provider reports; none is measured."""
    ticks = st.integers(0, 4)
    return st.builds(
        lambda id_, kind, size, start, length, url: RecordingFile(
            id_, kind, size, _FIRST + start * _TICK, _FIRST + (start + length) * _TICK, url
        ),
        st.sampled_from(ids), st.sampled_from(FileKind), st.integers(0, 3), ticks, ticks,
        st.sampled_from(["https://f/1", "https://f/2"]),
    )  # fmt: skip


def recordings(status: RecordingStatus | None = None) -> SearchStrategy[Recording]:
    """Recordings of up to six files, each measured or not as chance will have it."""
    measured = st.builds(
        lambda file, media_s: evolve(file, media_s=media_s),
        recording_files("abcdef"),
        st.none() | lengths_s(),
    )
    files = st.lists(measured, max_size=6, unique_by=lambda file: file.provider_file_id)
    return st.builds(
        lambda status, files: Recording(
            UUID(int=1), UUID(int=2), UUID(int=3), "zoom", "85746065432", status, tuple(files), _FIRST,
            _FIRST + timedelta(hours=1), _FIRST + RETENTION,
        ),
        st.sampled_from(RecordingStatus) if status is None else st.just(status), files,
    )  # fmt: skip


def transcripts() -> SearchStrategy[Transcript]:
    """Up to five utterances in the order of time, some of them empty."""
    utterances = st.builds(
        lambda at_s, text, speaker: Utterance(at_s, at_s + 1, text, speaker),
        st.floats(0, 10_000, allow_nan=False), _TEXTS, st.none() | _TEXTS,
    )  # fmt: skip
    return st.lists(utterances, max_size=5).map(lambda many: tuple(sorted(many, key=lambda one: one.at_s)))


def drafts() -> SearchStrategy[NoteDraft]:
    """What a writer may make."""
    seconds = st.floats(0, 10_000, allow_nan=False)
    decision = st.builds(Decision, _TEXTS, _TEXTS, seconds)
    item = st.builds(ActionItem, _TEXTS, _TEXTS, seconds, st.none() | _TEXTS, st.none() | _TEXTS)
    return st.builds(
        NoteDraft, _TEXTS, st.lists(decision, max_size=3).map(tuple), st.lists(item, max_size=3).map(tuple),
        st.lists(_TEXTS, max_size=3).map(tuple),
    )  # fmt: skip


def notes(status: NoteStatus | None = None) -> SearchStrategy[Note]:
    """Notes at any step with or without content, as they may be between two decisions."""
    return st.builds(
        Note,
        id=st.just(UUID(int=4)), account_id=st.just(UUID(int=2)), api_key_id=st.just(UUID(int=5)),
        recording_id=st.just(UUID(int=1)), meeting_id=st.just(UUID(int=3)),
        language=st.sampled_from(Language),
        status=st.sampled_from(NoteStatus) if status is None else st.just(status),
        step=st.sampled_from(NoteStep), duration_s=st.integers(1, 100_000), created_at=st.just(_FIRST),
        tries=st.integers(0, 9), draft=st.none() | drafts(), transcript=transcripts(),
    )  # fmt: skip
