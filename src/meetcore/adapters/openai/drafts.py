"""Turn a model's output into a checked note draft.

Every quote is the transcript's own text at its own second, or the item is dropped; an owner or a due date
that does not occur in the transcript is dropped from its item.

Owns that and the bounds on a note's size. The content itself is not judged.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from meetcore.adapters.openai.schemas import WrittenAction, WrittenDecision, WrittenNotes, WrittenSummary
from meetcore.adapters.openai.text import one_line, paragraphs
from meetcore.domain.notes.citations import find_citation, is_in_vocabulary, vocabulary
from meetcore.domain.notes.notes import ActionItem, Decision, NoteDraft
from meetcore.domain.notes.transcripts import Transcript

MOST_SUMMARY_CHARS: Final = 8_000
_MOST_ITEMS: Final = 200
_MOST_TOPICS: Final = 20
_MOST_CHARS: Final = 1_000
_MOST_NAME_CHARS: Final = 200


def draft_of(transcript: Transcript, parts: Sequence[WrittenNotes], whole: WrittenSummary) -> NoteDraft:
    """The note's content.

    Args:
        transcript: the utterances, numbered as for the model.
        parts: what was written on each part, in the order of time.
        whole: what they come to; of one part, that part.
    """
    among = vocabulary(transcript)
    # Bounded before they are searched for: a model that goes round in circles may write thousands.
    decisions = (_decision(transcript, one) for part in parts for one in part.decisions[:_MOST_ITEMS])
    actions = (_action(transcript, among, one) for part in parts for one in part.action_items[:_MOST_ITEMS])
    return NoteDraft(
        summary=paragraphs(whole.summary, MOST_SUMMARY_CHARS),
        decisions=tuple(dict.fromkeys(one for one in decisions if one is not None))[:_MOST_ITEMS],
        action_items=tuple(dict.fromkeys(one for one in actions if one is not None))[:_MOST_ITEMS],
        topics=_topics(whole.topics),
    )


def _decision(transcript: Transcript, written: WrittenDecision) -> Decision | None:
    text = one_line(written.text, _MOST_CHARS)
    quote = find_citation(transcript, written.quote, written.utterance)
    return Decision(text, quote.text[:_MOST_CHARS], quote.at_s) if text and quote else None


def _action(transcript: Transcript, among: frozenset[str], written: WrittenAction) -> ActionItem | None:
    task = one_line(written.task, _MOST_CHARS)
    quote = find_citation(transcript, written.quote, written.utterance)
    if not task or quote is None:
        return None
    owner, due = (_transcript_text(value, among) for value in (written.owner, written.due))
    return ActionItem(task, quote.text[:_MOST_CHARS], quote.at_s, owner, due)


def _transcript_text(value: str | None, among: frozenset[str]) -> str | None:
    text = one_line(value or "", _MOST_NAME_CHARS)
    return text if is_in_vocabulary(text, among) else None


def _topics(written: Iterable[str]) -> tuple[str, ...]:
    topics = (one_line(topic, _MOST_NAME_CHARS) for topic in written)
    return tuple(dict.fromkeys(topic for topic in topics if topic))[:_MOST_TOPICS]
