"""Find action items: who is asked to do what, who takes something on, and by when.

"Saya", "gue" and "I" are the speaker, "lo" and "you" whom the sentence calls, or who accepts it next. What is
said to run the meeting is no task.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from attrs import evolve

from meetcore.adapters.local_notes import action_patterns as patterns
from meetcore.adapters.local_notes.action_forms import Task, end_of, task_in
from meetcore.adapters.local_notes.due_phrases import due_at, due_in, without_due
from meetcore.adapters.local_notes.names import People
from meetcore.adapters.local_notes.sentences import Sentence
from meetcore.adapters.local_notes.task_evidence import ME
from meetcore.domain.notes.notes import ActionItem


def actions_in(sentences: Sequence[Sentence], people: People) -> Iterator[tuple[int, ActionItem]]:
    """Yield the action items with the numbers of their sentences.

    Who answers a request that names nobody has it; a promise in an answer to a request is no second task.
    """
    last: tuple[int, ActionItem] | None = None
    for at, sentence in enumerate(sentences):
        task = task_in(sentence, people)
        if task is None:
            continue
        item = _item(task, sentence, _follower(sentences, at))
        if item is None or (task.is_mine and last is not None and _answers(sentences, at, item, last)):
            continue
        if item.owner is None and (task.is_yours or task.is_request):
            item = evolve(item, owner=_listener(sentences, at))
        last = at, item
        yield last


def action_in(sentence: Sentence, people: People | None = None) -> ActionItem | None:
    """Return the action item of a sentence by itself."""
    task = task_in(sentence, people or People((sentence.speaker or "",)))
    return None if task is None else _item(task, sentence, None)


def _item(task: Task, sentence: Sentence, follower: str | None) -> ActionItem | None:
    """Make the item; a due date may stand before the task, or alone in the speaker's next sentence."""
    phrase = sentence.text[task.begin : task.end]
    due = due_in(phrase) or due_in(sentence.text[: task.begin])
    if due is None and follower is not None:
        due = due_in(follower)
    shown = patterns.TAIL.sub("", without_due(phrase).strip(patterns.MARKS)).strip(patterns.MARKS)
    if not shown:
        return None
    owner = sentence.speaker if task.is_mine else _with_speaker(task.owner, sentence.speaker)
    return ActionItem(shown[0].upper() + shown[1:], sentence.text, sentence.at_s, owner, due)


def _with_speaker(owner: str | None, speaker: str | None) -> str | None:
    """Put the speaker where a list of owners says "and I"."""
    if owner is None or ME not in owner:
        return owner
    return ", ".join(name for name in (speaker if each == ME else each for each in owner.split(", ")) if name)


def _follower(sentences: Sequence[Sentence], at: int) -> str | None:
    """Return the next sentence of the same utterance, if it says a due date and nothing else."""
    if at + 1 == len(sentences) or sentences[at + 1].at_s != sentences[at].at_s:
        return None
    text = sentences[at + 1].text
    begin = end_of(patterns.ONLY_DUE, text, 0)
    end = due_at(text, begin)
    return text if end > begin and end_of(patterns.ONLY_DUE, text, end) == len(text) else None


def _listener(sentences: Sequence[Sentence], at: int) -> str | None:
    """Return who accepts in the next utterance."""
    for answer in sentences[at + 1 : at + 4]:
        if answer.at_s != sentences[at].at_s:
            accepts = answer.speaker != sentences[at].speaker and patterns.ACCEPTS.match(answer.text)
            return answer.speaker if accepts else None
    return None


def _answers(
    sentences: Sequence[Sentence], at: int, promise: ActionItem, last: tuple[int, ActionItem]
) -> bool:
    """Return whether a promise repeats what its speaker was just asked for."""
    place, item = last
    speaker, between = sentences[at].speaker, {one.at_s for one in sentences[place : at + 1]}
    if len(between) > _ANSWER_WITHIN or speaker is None or speaker == sentences[place].speaker:
        return False
    if (
        len(between) == 2
        and (patterns.ACCEPTS.match(_first_of(sentences, at)) or promise.task.count(" ") < 2)
        and not patterns.ALSO.search(sentences[at].text)
    ):
        return True
    return item.owner is None or any(
        name.split()[-1].casefold() in speaker.casefold() for name in item.owner.split(", ")
    )


def _first_of(sentences: Sequence[Sentence], at: int) -> str:
    """Return the first sentence of an utterance."""
    while at and sentences[at - 1].at_s == sentences[at].at_s:
        at -= 1
    return sentences[at].text


_ANSWER_WITHIN: Final = 3
