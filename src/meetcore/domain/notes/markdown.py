"""A note as Markdown, for people to read. Markdown or HTML in spoken text is escaped."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from meetcore.domain.meetings.meetings import Meeting
from meetcore.domain.meetings.schedule import cap_day
from meetcore.domain.notes.notes import BY_RULES, ActionItem, Decision, Language, Note, NoteStatus
from meetcore.domain.notes.transcripts import Utterance, format_offset


def markdown(note: Note, meeting: Meeting | None = None) -> str:
    """Render a note for reading: the title and the day (WIB) of its meeting, its content or its state."""
    head, draft, first = _HEADINGS[note.language], note.draft, f"# {_HEADINGS[note.language]['notes']}"
    if meeting is not None:
        first = f"{first}: {_escaped(meeting.title)}\n\n{head['meeting']}: {cap_day(meeting.start_at)}"
    if note.status is not NoteStatus.COMPLETED or draft is None:
        return f"{first}\n\n{note.error or note.status}\n"
    writer = [] if note.written_by is None else [_writer(note.written_by, head)]
    if note.edited_at is not None:
        writer.append(f"*{head['edited']} {cap_day(note.edited_at)}*")
    parts = [first, *writer, _paragraphs(draft.summary)]
    if draft.decisions:
        parts += [f"## {head['decisions']}", "\n".join(_decision_line(one, head) for one in draft.decisions)]
    if draft.action_items:
        parts += [f"## {head['actions']}", "\n".join(_action_line(one, head) for one in draft.action_items)]
    if draft.topics:
        parts += [f"## {head['topics']}", "\n".join(f"- {_line_of(one)}" for one in draft.topics)]
    if note.transcript:
        parts += [f"## {head['transcript']}", "\n\n".join(_line(one) for one in note.transcript)]
    return "\n\n".join(parts) + "\n"


_HEADINGS: Final[Mapping[Language, Mapping[str, str]]] = MappingProxyType(
    {
        Language.INDONESIAN: {
            "notes": "Notulen", "meeting": "Rapat", "decisions": "Keputusan",
            "actions": "Tindak lanjut", "topics": "Topik",
            "transcript": "Transkrip", "due": "tenggat",
            "rules": "Draf otomatis (tanpa AI)", "writer": "Ditulis oleh",
            "edited": "Diperbaiki secara manual pada", "added": "ditambahkan secara manual",
        },
        Language.ENGLISH: {
            "notes": "Meeting notes", "meeting": "Meeting", "decisions": "Decisions",
            "actions": "Action items", "topics": "Topics",
            "transcript": "Transcript", "due": "due",
            "rules": "Draft by rules", "writer": "Written by", "edited": "Corrected by hand on",
            "added": "added by hand",
        },
    }
)  # fmt: skip
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~&])")
# What begins a list, a heading's underline, a rule or a table's second line at the beginning of a line.
_LINE_MARKUP = re.compile(r"^([-+=:])|^(\d{1,9})([.)])(?=\s|$)")


def _paragraphs(text: str) -> str:
    """Render a text of several lines, some of which may be list items."""
    lines = (line.strip() for line in text.splitlines())
    shown = (f"- {_line_of(line[2:])}" if line.startswith("- ") else _line_of(line) for line in lines)
    return "\n".join(shown).strip()


def _escaped(text: str) -> str:
    """Escape Markdown and HTML in a text, on one line."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


def _line_of(text: str) -> str:
    """Escape a text at the beginning of a line or of a list item."""

    def escape(found: re.Match[str]) -> str:
        return f"\\{found[1]}" if found[1] else f"{found[2]}\\{found[3]}"

    return _LINE_MARKUP.sub(escape, _escaped(text))


def _line(one: Utterance) -> str:
    speaker = f"{_escaped(one.speaker)}: " if one.speaker else ""
    return f"**{format_offset(one.at_s)}** {speaker}{_escaped(one.text)}"


def _decision_line(one: Decision, head: Mapping[str, str]) -> str:
    return f"- {_line_of(one.text)}{_said(one, head)}"


def _action_line(one: ActionItem, head: Mapping[str, str]) -> str:
    owner = f"**{_escaped(one.owner)}**: " if one.owner else ""
    said = ", ".join(_escaped(str(each)) for each in (one.due, one.due_on) if each)
    due = f" ({head['due']}: {said})" if said else ""
    return f"- [ ] {owner}{_escaped(one.task)}{due}{_said(one, head)}"


def _writer(name: str, head: Mapping[str, str]) -> str:
    return f"*{head['rules']}*" if name == BY_RULES else f"*{head['writer']} {_escaped(name)}*"


def _said(one: Decision | ActionItem, head: Mapping[str, str]) -> str:
    """Return the quote with its time, or the time alone where the quote says no more."""
    if one.is_by_hand:
        return f" *({head['added']})*"
    at = format_offset(one.at_s)
    return f" ({at})" if one.is_verbatim else f"\n  > {at} {_escaped(one.quote)}"
