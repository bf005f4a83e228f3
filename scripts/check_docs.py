"""The parts of docs/ generated from the code: tables, drawings, and parts of the examples.

Without arguments it writes them between their markers; with `--check` it writes nothing and exits 1
where a page is stale. The text around the markers is written by hand.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import attrs
from cyclopts import App

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "scripts")]

import state_machines  # noqa: E402

from meetcore.adapters.api.answers import STATUS  # noqa: E402
from meetcore.adapters.api.examples import EVENTS, payload  # noqa: E402
from meetcore.adapters.http.error_pages import ERROR_PAGES  # noqa: E402
from meetcore.adapters.prometheus import BUILD, FIGURES, UP  # noqa: E402
from meetcore.adapters.settings import PREFIX, SecretStr, Settings  # noqa: E402
from meetcore.cli.main import FOR_CUSTOMERS, program  # noqa: E402
from meetcore.domain.meetings import (  # noqa: E402
    cancellation,
    hosts,
    meetings,
    provider_events,
    sessions,
    views,
)
from meetcore.domain.members.roles import (  # noqa: E402
    ALLOWED,
    OPERATORS_ALLOWED,
    Action,
    OperatorAction,
    scopes_of,
)
from meetcore.domain.notes.recordings import FileKind, RecordingFile  # noqa: E402
from meetcore.domain.requests.keys import Scope  # noqa: E402
from meetcore.domain.webhooks.endpoints import DISABLE_AFTER_FAILURES  # noqa: E402
from meetcore.domain.webhooks.events import EventKind  # noqa: E402
from meetcore.domain.webhooks.retry_schedule import (  # noqa: E402
    DEFAULT_DELAYS_S,
    MAX_WAIT_S,
    WAITS_FROM_FAILURES,
    RetrySchedule,
    wait_after,
)
from meetcore.ports import video_provider  # noqa: E402
from meetcore.ports.observability import PROCESS_METRICS, Metric  # noqa: E402

# Rules that no validator of the settings carries: they are checked where the value is used.
MUST = {
    "secrets_key": "base64url of 32 bytes, several with commas; required",
    "ledger_keys": "base64url of 32 bytes, several with commas",
    "room_key": "base64url of 32 bytes",
    "home_page": "`true` or `false`",
    "media_cpu_percent": "from 10 to 100, or 0",
    "drain_s": "a whole number from 0 to 3600",
    "meeting_retention_days": "a whole number from 0 to 36500",
    "note_retention_days": "a whole number from 0 to 36500",
    "four_eyes_above": "a whole number of at least 0",
}
REQUIRED = {"database_url": "; required"}


def main(arguments: list[str]) -> int:
    """Write the generated parts, or with `--check` report the stale ones."""
    stale = []
    for page, wanted in wanted_pages().items():
        file = ROOT / page
        if file.exists() and file.read_text("utf-8") == wanted:
            continue
        stale.append(page)
        if arguments != ["--check"]:
            file.write_text(wanted, "utf-8")
    if arguments != ["--check"]:
        return 0
    for page in stale:
        print(f"{page} no longer says what the code says: run python scripts/check_docs.py", file=sys.stderr)
    return 1 if stale else 0


def wanted_pages() -> dict[str, str]:
    """Return every page with generated parts, as it must be."""
    pages = {
        "docs/webhooks.md": {
            "events": event_table(), "payload": payload_block(), "retries": retry_sentence(),
        },
        "docs/operating.md": {"commands": command_table(for_customers=False)},
        "docs/client.md": {"commands": command_table(for_customers=True)},
        "docs/errors.md": {"errors": error_table()},
        "docs/embedding.md": shown_parts("docs/embedding.md"),
        "docs/settings.md": {"settings": settings_table()},
        "docs/observability.md": {
            "metrics of processes": metric_table([*PROCESS_METRICS, BUILD, UP]),
            "figures of the store": metric_table(FIGURES.values()),
        },
        "docs/state-machines.md": state_machines.drawings(),
        "docs/adapters.md": {"provider types": provider_types(), "abilities": abilities_table()},
        "docs/dashboard.md": {
            "roles": role_table(Action, ALLOWED),
            "role scopes": role_scopes_table(),
            "operator roles": role_table(OperatorAction, OPERATORS_ALLOWED),
        },
    }  # fmt: skip
    wanted = {}
    for page, parts in pages.items():
        text = (ROOT / page).read_text("utf-8")
        for name, part in parts.items():
            text = placed(text, name, part)
        wanted[page] = text
    return wanted


def placed(text: str, name: str, part: str) -> str:
    """Return the page with a part between its markers."""
    begin, end = f"<!-- generated: {name} -->\n", f"<!-- end of {name} -->"
    found = re.search(f"{re.escape(begin)}.*?{re.escape(end)}", text, re.DOTALL)
    if found is None:
        raise SystemExit(f"the markers of {name} are missing")
    return text[: found.start()] + begin + "\n" + part + "\n" + end + text[found.end() :]


def shown_parts(page: str) -> dict[str, str]:
    """Return the definitions of example files that a page shows, by its markers: the file and the names."""
    text = (ROOT / page).read_text("utf-8")
    shown = re.findall(r"<!-- generated: ((examples/\S+) (.+)) -->", text)
    return {name: source_block(ROOT / file, names.split()) for name, file, names in shown}


def source_block(file: Path, names: Iterable[str]) -> str:
    """Return the source of definitions, such as `Shop.buy`, as a block of Python."""
    source = file.read_text("utf-8")
    return "```python\n" + "\n\n\n".join(definition(source, name) for name in names) + "\n```"


def definition(source: str, name: str) -> str:
    """Return the lines of a class, a function or a variable."""
    found: ast.AST = ast.parse(source)
    for part in name.split("."):
        nodes = [each for each in ast.iter_child_nodes(found) if part in _names_of(each)]
        if not nodes:
            raise SystemExit(f"there is no {name} in the example")
        found = nodes[0]
    assert isinstance(found, ast.stmt)
    first = min([found.lineno, *(each.lineno for each in getattr(found, "decorator_list", []))])
    return textwrap.dedent("\n".join(source.splitlines()[first - 1 : found.end_lineno]))


def _names_of(node: ast.AST) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [getattr(node, "name", ""), *(getattr(each, "id", "") for each in targets)]


def error_table() -> str:
    """Return every code with the text of its page, as `GET /docs/errors/<code>` shows them."""
    heads = ("code", "status", "meaning", "what to do", "does a retry help?", "`details`")
    return _table(
        heads,
        (
            (f"`{code}`", str(STATUS[code]), page.meaning, page.remedy, page.retry, page.details)
            for code, page in ERROR_PAGES.items()
        ),
    )


def command_table(*, for_customers: bool) -> str:
    """Return the commands with their arguments, options and help."""
    return _table(
        ("command", "options", "does"),
        (
            row
            for row in _commands(program, "meetcore")
            if (row[0].strip("`").split()[1] in FOR_CUSTOMERS) == for_customers
        ),
    )


def _commands(group: App, path: str) -> Iterator[Sequence[str]]:
    for name in group:
        command, whole = group[name], f"{path} {name}"
        if name.startswith("-"):
            continue
        if command.default_command is None:
            yield from _commands(command, whole)
            continue
        parameters = inspect.signature(command.default_command).parameters
        words = {each: each.rstrip("_").replace("_", "-") for each in parameters}
        is_option = {each: parameter.kind is parameter.KEYWORD_ONLY for each, parameter in parameters.items()}
        arguments = [words[each].upper() for each in parameters if not is_option[each]]
        options = [f"`--{words[each]}`" for each in parameters if is_option[each]]
        about = command.help.partition("Parameters\n")[0]
        yield f"`{' '.join([whole, *arguments])}`", ", ".join(options), about.strip()


def event_table() -> str:
    """Return every kind of event."""
    return _table(("kind", "meaning"), ((f"`{kind.value}`", EVENTS[kind].about) for kind in EventKind))


def payload_block() -> str:
    """Return a whole payload."""
    shown = json.dumps(payload(EventKind.MEETING_CREATED), indent=2, ensure_ascii=False)
    return f"```json\n{shown}\n```\n"


def retry_sentence() -> str:
    """Describe the default retry schedule of deliveries."""
    *waits, last = (_duration(delay_s) for delay_s in DEFAULT_DELAYS_S)
    longer = [_duration(delay_s) for delay_s in DEFAULT_DELAYS_S if delay_s < MAX_WAIT_S]
    all_waits = (wait_after(RetrySchedule(), failures, 0) for failures in range(1, DISABLE_AFTER_FAILURES))
    hours, seconds = divmod(int(sum(all_waits, timedelta()).total_seconds()), 3600)
    return (
        f"A failed delivery is tried again after {', '.join(waits)} and {last}: {len(DEFAULT_DELAYS_S) + 1} "
        "attempts in all. Then it is `failed`, and can be sent again by hand.\n\n"
        f"From the {WAITS_FROM_FAILURES}th failure in a row on a webhook waits for its next post, whatever "
        f"is due: {', '.join(longer)}, then {_duration(MAX_WAIT_S)} each time. So {DISABLE_AFTER_FAILURES} "
        f"failures in a row take at least {hours} h {seconds // 60} min.\n"
    )


def provider_types() -> str:
    """Return the types of a provider's arguments and results, with their modules and fields."""
    kinds = (
        views.ProviderOrder, meetings.MeetingOptions, meetings.Provisioned, meetings.ProviderAbilities,
        hosts.PasswordRule, cancellation.ProviderMeetingState, views.ListedMeeting, views.FoundMeeting,
        video_provider.ProviderWebhook, provider_events.ProviderEvent, provider_events.ProviderEventKind,
        sessions.Session, RecordingFile, FileKind,
    )  # fmt: skip
    return _table(
        ("type", "of the module", "fields"),
        ((f"`{each.__name__}`", f"`{each.__module__}`", ", ".join(_fields(each))) for each in kinds),
    )


def _fields(kind: type) -> list[str]:
    if issubclass(kind, StrEnum):
        return [f"`{each.name}`" for each in kind]
    if kind is meetings.ProviderAbilities:
        return ["see below"]
    return [f"`{each.name}: {_type(each.type)}`" for each in attrs.fields(kind)]


def _type(annotation: Any) -> str:
    plain = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    text = plain.__name__ if isinstance(plain, type) and not get_args(plain) else str(plain)
    return re.sub(r"\b\w+\.(?=\w)", "", text)


def abilities_table() -> str:
    """Return every ability with its default; the page itself says the meanings."""
    meanings = _last_cells("docs/adapters.md", "abilities")
    return _table(
        ("ability", "default", "meaning"),
        (
            (name, "" if each.default is attrs.NOTHING else f"`{each.default}`", meanings.get(name, ""))
            for each in attrs.fields(meetings.ProviderAbilities)
            for name in (f"`{each.name}`",)
        ),
    )


def metric_table(metrics: Iterable[Metric]) -> str:
    """Return one row for each metric."""
    return _table(
        ("metric", "kind", "labels", "meaning"),
        (
            (f"`{each.name}`", each.kind, ", ".join(f"`{label}`" for label in each.labels), each.about)
            for each in metrics
        ),
    )


def role_table(actions: type[StrEnum], allowed: Mapping[Any, frozenset[Any]]) -> str:
    """Return every pair of action and role."""
    return _table(
        ("action", *allowed),
        (
            (f"`{action.value}`", *("yes" if action in allowed[role] else "" for role in allowed))
            for action in actions
        ),
    )


def role_scopes_table() -> str:
    """Return the scopes of each role's own actions."""
    return _table(
        ("role", "scopes"),
        ((role, ", ".join(f"`{each}`" for each in Scope if each in scopes_of(role))) for role in ALLOWED),
    )


def settings_table() -> str:
    """Return every setting with its default and its rule; the page itself says the purposes."""
    purposes = _last_cells("docs/settings.md", "settings")
    fields = {f"`{PREFIX}{each.name.upper()}`": each for each in attrs.fields(Settings)}
    known = [name for name in purposes if name in fields]
    rows = []
    for name in [*known, *(fields.keys() - purposes.keys())]:
        field = fields[name]
        default = str(field.default).lower() if field.type is bool else str(field.default)
        rows.append((name, f"`{default}`" if default else "empty", _must(field), purposes.get(name, "")))
    return _table(("variable", "default", "must be", "purpose"), rows)


def _last_cells(page: str, part: str) -> dict[str, str]:
    """Return what people wrote into the last column of a table, by its first cell.

    Raises:
        SystemExit: a row has no such text.
    """
    text = (ROOT / page).read_text("utf-8").partition(f"<!-- generated: {part} -->")[2]
    rows = [
        [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in text.partition("<!-- end of")[0].strip().splitlines()[2:]
    ]
    if empty := [cells[0] for cells in rows if not cells[-1]]:
        raise SystemExit(f"{page}: say in the last column what {', '.join(empty)} is for")
    return {cells[0]: cells[-1] for cells in rows}


def _must(field: attrs.Attribute[Any]) -> str:
    """Return the validator's error message for an impossible value."""
    if field.name in MUST:
        return MUST[field.name]
    impossible: object = 0 if field.type is int else -1.0 if field.type is float else "\0"
    if field.type is SecretStr:
        impossible = SecretStr("\0")
    try:
        field.validator(None, field, impossible)
    except ValueError as refusal:
        rule = str(refusal).partition(" must be ")[2]
        return rule.partition("; see ")[0] + REQUIRED.get(field.name, "")
    raise SystemExit(f"{field.name} takes anything: give its rule in MUST")


def _duration(seconds: int) -> str:
    for size, unit in ((3600, "h"), (60, "min"), (1, "s")):
        if seconds % size == 0:
            return f"{seconds // size} {unit}"
    raise AssertionError(seconds)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join([_row(heads), "|" + "---|" * len(heads), *map(_row, rows)]) + "\n"


def _row(cells: Sequence[str]) -> str:
    # Text in angle brackets would be taken for HTML and not be shown.
    shown = (cell.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ") for cell in cells)
    return "| " + " | ".join(shown) + " |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
