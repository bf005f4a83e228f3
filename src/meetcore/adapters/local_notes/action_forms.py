"""The forms of an action item within one sentence.

A sentence is read from each place at which a clause can begin. The forms are tried there in order, and the
first that fits decides. Whoever is asked by name or by title need not speak; a stranger's name counts with a
verb of a task or a request only.
"""

import re
from collections.abc import Callable
from typing import Final

from attrs import evolve, frozen

from meetcore.adapters.local_notes import action_patterns as patterns
from meetcore.adapters.local_notes.due_phrases import due_at, due_in
from meetcore.adapters.local_notes.mechanics import is_mechanics, is_said_now
from meetcore.adapters.local_notes.names import Found, People
from meetcore.adapters.local_notes.sentences import Sentence
from meetcore.adapters.local_notes.task_evidence import ME, weighed
from meetcore.adapters.local_notes.verbs import is_english_verb, is_free, is_verb


@frozen
class Task:
    """A task in a sentence: its words from `begin` to `end`, and whose it is.

    `is_mine`: the speaker's; `is_yours`: theirs whom it speaks to. `needs_due`: too weak without a due date.
    """

    begin: int
    end: int
    owner: str | None = None
    is_mine: bool = False
    is_yours: bool = False
    needs_due: bool = False
    is_request: bool = False


def task_in(sentence: Sentence, people: People) -> Task | None:
    """Return the task of a sentence by itself."""
    # Typographic apostrophe to plain; the same length keeps the offsets.
    text = sentence.text.replace("\u2019", "'")
    is_question = text.rstrip("\"')] ").endswith("?")
    places = sorted(
        {start_of(text, begin) for begin in (0, *(found.end() for found in patterns.BEGINS.finditer(text)))}
    )
    weight = weighed(text, people, _people_at)
    if weight is not None:
        begin, owner, is_mine, is_yours = weight
        weighty = Task(begin, len(text), owner, is_mine, is_yours)
        if _is_real(text, weighty):
            return weighty
    for form in _FORMS:
        if is_question and form not in _AS_QUESTION:
            continue
        for begin in places:
            task = form(text, begin, people)
            if task is not None and _is_real(text, task):
                return task
    return None


def start_of(text: str, begin: int) -> int:
    """Skip fillers and due words before a clause."""
    for _ in range(2):
        due = due_at(text, begin)
        begin = end_of(
            patterns.FILLERS, text, begin if due == begin else end_of(patterns.AFTER_DUE, text, due)
        )
    return begin


def end_of(pattern: re.Pattern[str], text: str, begin: int) -> int:
    """Return the end of a match at a place, or the place."""
    found = pattern.match(text, begin)
    return begin if found is None else found.end()


def _is_real(text: str, task: Task) -> bool:
    phrase = text[task.begin : task.end].strip(patterns.MARKS)
    if not phrase or is_mechanics(phrase, text):
        return False
    due = due_in(text)
    if due is None and task.is_mine and " " not in phrase and _has_no_object(text, task.begin):
        return False
    if due is None and (task.needs_due or is_said_now(phrase, is_mine=task.is_mine)):
        return False
    if task.is_mine and patterns.STATES.search(text):
        return False
    return not patterns.REMINDS.search(text, 0, task.begin) or is_verb(phrase.split()[0])


def _has_no_object(text: str, begin: int) -> bool:
    """Return whether nothing but the speaker stands before a verb: "nanti saya cek"."""
    return patterns.ONLY_ME.fullmatch(text, start_of(text, 0), begin) is not None


def _asked(text: str, begin: int, people: People) -> Task | None:
    """A person, then a request or a duty: "Bu Ratna agar menyusun", "Ben, please send", "Lisa must sign"."""
    found = _people_at(text, begin, people)
    if found is None:
        return None
    person, after, _ = found
    asked = patterns.ASKED.match(text, after)
    if asked is None:
        return None
    if not person.is_known and patterns.BY_ME.match(text, after):
        return None
    verb = text[asked.start("task") :].split(" ", 1)[0].strip(patterns.MARKS)
    is_strong = patterns.STRONG.match(text, after) is not None
    if (
        not person.is_known
        and not is_strong
        and not (is_verb(verb) or is_english_verb(verb) or patterns.THE.match(text, asked.start("task")))
    ):
        return None
    if patterns.NO_DUTY.match(text, asked.start("task")) and not (is_strong and person.is_known):
        return None
    return Task(asked.start("task"), len(text), person.owner, is_request=True)


def _people_at(text: str, begin: int, people: People) -> tuple[Found, int, bool] | None:
    found = people.at(text, begin)
    if found is None or not found.is_known:
        called = people.called_at(text, begin)
        found = called if called is not None and _is_call(text, called.end) else found
    if found is None:
        return None
    me = patterns.AND_ME.match(text, found.end)
    if me is not None:
        found = evolve(found, names=(*found.names, ME), end=me.end())
    after = patterns.AFTER_NAME.match(text, found.end)
    if after is None:
        return None
    return found, after.end(), after["comma"] is not None


def _is_call(text: str, end: int) -> bool:
    if patterns.CALL.match(text, end):
        return True
    word = patterns.WORD.match(text, end + 1)
    return word is not None and is_verb(word[0])


def _does(text: str, begin: int, people: People) -> Task | None:
    """A person, then the verb of a task: "Dewi yang pasang", "Rudi dan Dewi menyiapkan", "Ben will write"."""
    found = _people_at(text, begin, people)
    if found is None:
        return None
    person, after, has_comma = found
    you = patterns.YOU.match(text, after)
    if you and (is_verb(you["verb"]) or is_english_verb(you["verb"])):
        return Task(you.start("task"), len(text), person.owner)
    for pattern, is_task_verb in ((patterns.WILL_EN, is_english_verb), (patterns.WILL, is_verb)):
        does = pattern.match(text, after)
        if does is None or not is_task_verb(does["verb"]) or _is_past(text, begin, does.start("verb")):
            continue
        is_bare = does.start("task") == after
        is_plain = is_bare and len(person.names) == 1 and not has_comma and is_free(does["verb"])
        if is_plain and not _is_urged(text):
            continue
        if is_bare and patterns.REPORTS.match(text, does.end("verb")):
            continue
        if not person.is_known and (
            is_bare or patterns.WEAK.match(text, after) or does["verb"].startswith("di")
        ):
            continue
        return Task(does.start("task"), len(text), person.owner)
    if patterns.ANSWERABLE.match(text, after):
        return Task(0, len(text), person.owner)
    if (owns := patterns.OWNS.match(text, after)) and not has_comma:
        return Task(owns.start("task"), len(text), person.owner)
    if (
        has_comma
        and person.is_known
        and (base := patterns.BASE.match(text, after))
        and (is_english_verb(base["verb"]) or base["verb"].lower() == "have")
    ):
        return Task(base.start("task"), len(text), person.owner)
    if not has_comma and (to := patterns.TO.match(text, after)) and is_english_verb(to["verb"]):
        return Task(to.start("task"), len(text), person.owner, needs_due=not person.is_known)
    return None


def _is_urged(text: str) -> bool:
    return patterns.TAIL_YA.search(text) is not None or due_in(text) is not None


def _is_past(text: str, begin: int, end: int) -> bool:
    return patterns.DONE.search(text, begin, end) is not None or patterns.WAS.search(text) is not None


def _asks_name(text: str, begin: int, people: People) -> Task | None:
    """A request that names whom: "saya minta Pak Hendra menyusun", "tolong Budi kirimkan"."""
    asks = patterns.ASKS_NAME.match(text, begin)
    if asks is None:
        return None
    found = people.at(text, asks.end())
    if found is None:
        return None
    after = patterns.AFTER_NAME.match(text, found.end)
    rest = end_of(patterns.SOFT, text, end_of(patterns.AFTER_NAME, text, found.end))
    verb = text[rest:].split(" ", 1)[0].strip(patterns.MARKS)
    if (
        after is None
        or not verb
        or (asks[0].lower().startswith(("can ", "could ", "maybe ")) and not is_english_verb(verb))
    ):
        return None
    return Task(rest, len(text), found.owner, is_request=True)


def _yours(text: str, begin: int, people: People) -> Task | None:
    """ "lo handle tiket ya", "you should call them"."""
    you = patterns.YOU.match(text, begin) or patterns.FRONTED_YOU.match(text, begin)
    if (
        you is None
        or not (is_verb(you["verb"]) or is_english_verb(you["verb"]))
        or _is_past(text, begin, you.start("verb"))
    ):
        return None
    called = people.called_last(text)
    begins = _people_at(text, 0, people)
    owner = called.owner if called else begins[0].owner if begins and begins[2] else None
    is_plain_you = you[0][:3].lower() == "you" and you.start("task") - you.start() < 5
    return Task(you.start("task"), len(text), owner, is_yours=True, needs_due=is_plain_you)


def _unowned(text: str, begin: int, people: People) -> Task | None:
    """A request that begins with its verb: "tolong kirim", "please review", "Can you call them, Bob?"."""
    asked = patterns.UNOWNED.match(text, begin)
    if asked is None:
        return None
    if people.at(text, asked.start("task")):
        return None
    called = people.called_last(text)
    return Task(asked.start("task"), len(text), called.owner if called else None, is_request=True)


def _mine(text: str, begin: int, people: People) -> Task | None:
    """What the speaker takes on: "nanti saya kirim", "biar gue yang urus", "file finalnya gue upload"."""
    mine = patterns.MY.match(text, begin)
    if (
        mine is None
        or not is_verb(mine["verb"])
        or _is_past(text, start_of(text, 0), mine.start())
        or _is_past(text, mine.start(), mine.start("verb"))
    ):
        return None
    is_firm = bool(mine["lead"].strip() or patterns.FIRM.search(mine["mark"]))
    return Task(mine.start("task"), len(text), is_mine=True, needs_due=not is_firm)


def _mine_anywhere(text: str, begin: int, people: People) -> Task | None:
    """The same behind its object; only once for a sentence."""
    if begin != start_of(text, 0):
        return None
    for mine in patterns.MY.finditer(text):
        if task := _mine(text, mine.start(), people):
            return task
    return None


def _given(text: str, begin: int, people: People) -> Task | None:
    """What is given to somebody behind it: "… jadi tugas Andi", "… biar Bu Tini yang urus"."""
    if begin != start_of(text, 0):
        return None
    for given in patterns.GIVEN.finditer(text):
        found = people.at(text, given.end())
        if (
            found is None
            or (not found.is_known and given[0].lower().startswith("biar"))
            or _is_past(text, begin, given.start())
        ):
            continue
        if given[0].lower().strip() == "biar":
            does = patterns.WILL.match(text, found.end + 1)
            if does is None or not is_verb(does["verb"]):
                continue
            return Task(begin if begin < given.start() else does.start("task"), len(text), found.owner)
        if begin < given.start() or found.end < len(text.rstrip(patterns.MARKS)):
            return Task(
                begin if begin < given.start() else found.end,
                len(text),
                found.owner,
                needs_due=not found.is_known,
            )
    return None


def _labelled(text: str, begin: int, people: People) -> Task | None:
    """ "Action item: …", "Tugas untuk Maya: …"."""
    if begin == 0 and (label := patterns.LABEL.match(text)):
        whose = people.at(text, label.start("task"))
        to = patterns.TO.match(text, end_of(patterns.AFTER_NAME, text, whose.end)) if whose else None
        return (
            Task(to.start("task"), len(text), whose.owner)
            if whose and to
            else Task(label.start("task"), len(text))
        )
    its = patterns.ITS_TASK.match(text, begin)
    found = people.at(text, its.end()) if its else None
    rest = patterns.ITS.match(text, found.end) if found else None
    return None if found is None or rest is None else Task(rest.start("task"), len(text), found.owner)


def _is_any_verb(text: str, begin: int) -> bool:
    word = patterns.WORD.match(text, begin)
    return word is not None and (is_verb(word[0]) or is_english_verb(word[0]))


def _ours(text: str, begin: int, people: People) -> Task | None:
    """What all have to do, or what has to be done, by a day."""
    for pattern in (patterns.WE_ID, patterns.WE_EN, patterns.MUST_BE):
        ours = pattern.match(text, begin)
        if (
            ours
            and (pattern is patterns.MUST_BE or _is_any_verb(text, ours.start("task")))
            and not _is_past(text, begin, ours.start("task"))
            and not patterns.TALKS.match(text, ours.start("task"))
        ):
            return Task(ours.start("task"), len(text), needs_due=True)
    return None


_Form = Callable[[str, int, People], Task | None]
_FORMS: Final[tuple[_Form, ...]] = (
    _labelled, _asked, _asks_name, _does, _unowned, _mine_anywhere,
    _yours, _given, _ours,
)  # fmt: skip
_AS_QUESTION: Final = (_asked, _asks_name, _unowned)
