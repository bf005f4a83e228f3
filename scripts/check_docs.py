"""The parts of docs/ generated from the code: tables, drawings, and parts of the examples.

Without arguments it writes them between their markers; with `--check` it writes nothing and exits 1
where a page is stale. The text around the markers is written by hand.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import attrs

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "scripts")]

import state_machines  # noqa: E402

from meetcore.adapters.api.answers import STATUS  # noqa: E402
from meetcore.adapters.api.examples import EVENTS, payload  # noqa: E402
from meetcore.adapters.http.error_pages import ERROR_PAGES  # noqa: E402
from meetcore.adapters.prometheus import BUILD, FIGURES, UP  # noqa: E402
from meetcore.adapters.settings import PREFIX, SecretStr, Settings  # noqa: E402
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

ABOUT = {
    "database_url": "the address of PostgreSQL; `dev` brings its own",
    "secrets_key": "the keys of what is encrypted at rest: the first encrypts, all decrypt",
    "base_url": "the address that customers use: in join links, `Location` and `docs_url`",
    "broker_url": "wakes the workers of other processes",
    "broker_queues": "`quorum` for a cluster of RabbitMQ, whose queues then outlive the loss of a node; see "
    "[scaling](scaling.md)",
    "rate_counters": "the adapter that counts requests; empty is `redis` with `MEETCORE_RATE_STORE_URL`, "
    "else `postgres`",
    "rate_store_url": "counts requests for all processes",
    "provider": "the adapter of the service that runs the meetings; see [adapters](adapters.md)",
    "jitsi_url": "the Jitsi server that links lead to",
    "zoom_account_id": "the account whose hosts hold the meetings",
    "zoom_client_id": "the server-to-server application of that account",
    "zoom_client_secret": "its secret",
    "zoom_webhook_token": "the application's secret token, which Zoom signs its events with",
    "zoom_api_url": "Zoom's API; tokens come from the same host without `api.`",
    "transcriber": "the adapter that transcribes; empty is `openai` with its address and model, else `local`",
    "writer": "the adapter that writes notes; empty is `openai` with its address and model, else `rules`",
    "ai_base_url": "an endpoint that speaks OpenAI's API, with its version; it transcribes and writes",
    "ai_api_key": "its key; empty for one that wants none",
    "ai_transcribe_model": "the model that transcribes",
    "ai_transcribe_format": "`json` for a model that returns no times: seconds are then approximate",
    "ai_spoken_language": "the language that is spoken: `note` for that of the note, `auto` to let the model "
    "find out",
    "ai_write_model": "the model that writes",
    "ai_context_chars": "of a transcript given to the model at a time; a longer one goes in parts",
    "ai_timeout_s": "seconds for one call of that endpoint as a whole",
    "gateway": "the adapter of the payment gateway at which credits are bought; with `none` they are sold by "
    "operators only",
    "gateway_secret": "the gateway's secret key for its API",
    "gateway_webhook_secret": "the secret that its notifications are verified by",
    "gateway_url": "the address of the gateway's API",
    "support_contact": "whom customers ask: an e-mail address or a page, on every page and in every mail",
    "mailer": "the adapter that takes mails; empty is `smtp` with `MEETCORE_SMTP_URL`, else no mail is sent",
    "smtp_url": "the mail server; without one no mail is sent. TLS to any host but this machine: `smtps://` "
    "from the beginning, `smtp://` by STARTTLS",
    "mail_from": "the sender of mails, which call the service by its name, else the seller's or the host",
    "four_eyes_above": "credits that an operator moves alone in the console; more, in one amount or in a "
    "day by one operator or for one account, are proposed, and another operator approves them; 0 lets "
    "one move any",
    "sign_up": "`closed`, or accounts are opened at `/dashboard/sign-up` by members of another account "
    "(`invited`) or with any e-mail address (`open`); needs a mail server",
    "oidc_issuer": "the OpenID provider at which members sign in; see "
    "[single sign-on](operating.md#single-sign-on)",
    "oidc_client_id": "this service's client there",
    "oidc_client_secret": "its secret",
    "console_oidc_issuer": "the OpenID provider at which operators sign in to the console",
    "console_oidc_client_id": "this service's client there",
    "console_oidc_client_secret": "its secret",
    "tiers_file": "replaces the default pricing tiers",
    "key_prefix": "the beginning of every API key; keys with another prefix stop working",
    "quota_read": "reads of one key in one minute",
    "quota_write": "changes of one key in one minute",
    "quota_credit": "requests that cost credits, of one key in one minute",
    "quota_tool": "agent tool calls of one key in one minute",
    "quota_page": "requests for pages of the dashboard or the console in one session in one minute",
    "home_page": "whether `/` says what the service is; else it leads to the API reference",
    "mcp": "what agents are served at `/mcp`, where the extra `mcp` is installed: `everything`, or what is "
    "for `booking` and notes",
    "sender": "the adapter that posts webhooks",
    "webhook_allowed_networks": "networks that webhooks may go to although they are not public",
    "webhook_denied_networks": "networks that no webhook goes to, beside those that are not public; they win "
    "over the allowed ones",
    "ca_file": "authorities beside the system's, which certificates of receivers of webhooks and of the mail "
    "server may be of",
    "webhook_retry_schedule": "seconds before the second, third, ... attempt",
    "webhook_posts_per_host": "posts in flight at one destination host, over all accounts and workers; one "
    "account gets at most half of them; three times as many go out in a second",
    "webhook_posts_in_flight": "posts in flight in one worker; one account gets at most a quarter of them",
    "connections": "open connections of each process of `serve`, a fifth of them from one address or IPv6 "
    "/64; beyond them the one that waited longest without a request is closed",
    "drain_s": "seconds for which `serve` and `dev` go on after SIGTERM, with `/readyz` at 503",
    "trusted_proxies": "proxies whose `X-Forwarded-For` names the client; see "
    "[behind a proxy](deploying.md#behind-a-proxy)",
    "account_creations_percent": "of what other accounts left of the creations that the provider allows in a "
    "day, how much one account may use; 100 is no limit",
    "ledger_keys": "keys that old entries of the ledger are verified under, of keys that were removed from "
    "`MEETCORE_SECRETS_KEY`; see [the secrets key](operating.md#the-secrets-key)",
    "room_key": "the key of names of Jitsi's rooms and links of sandbox meetings, where it is not the "
    "last key of `MEETCORE_SECRETS_KEY`",
    "pdf_fonts": "fonts of PDFs for characters that Noto Sans lacks (Chinese, Arabic, symbols), tried in "
    "this order",
    "scratch_directory": "where media lies while it is worked on: on a disk, in files without names",
    "media_cpu_percent": "of one processor that each process takes that works on media; 0 is 25 on a machine "
    "of up to three processors and 100 on others",
    "recording_retention_days": "days for which a recording is kept; one that is there keeps its own",
    "meeting_retention_days": "days after its end for which a meeting is kept; 0 is for good; see "
    "[retention](operating.md#retention)",
    "note_retention_days": "days for which a note is kept; 0 is as many as a meeting",
    "event_retention_days": "days for which events, deliveries and attempts are kept and shown; their rows "
    "go with the partition that they are in, up to a week later",
    "notes_in_flight": "notes in progress, over all workers; each has one call to the AI provider at a time",
    "note_retry_schedule": "seconds before the second, third, ... try of a step of a note",
    "transcript_wait_s": "seconds for which notes wait for the video provider's transcript, which has names; "
    "empty is 1800 for Zoom and 0 for the others",
    "meeting_empty_for_s": "seconds after the last session in a meeting's time until it is over, unless "
    "another one begins",
    "database_pooler": "`transaction` behind PgBouncer in transaction mode; see "
    "[behind PgBouncer](deploying.md#behind-pgbouncer)",
    "database_direct_url": "where PostgreSQL itself is, for `migrate`; with a pooler required there",
    "database_pool_size": "connections to PostgreSQL of each process, at most",
    "database_read_url": "a standby that lists of the API may be read from, with what their caller has "
    "written, on half as many connections; see [lists from a standby](deploying.md#lists-from-a-standby)",
    "database_timeout_s": "seconds after which a transaction is given up, the wait for a connection "
    "included; PostgreSQL itself ends each statement 2 s sooner",
    "verify_every": "how often workers verify the whole ledger, a little at a time; 0 is never",
    "traces_url": "where traces are sent: the OTLP/HTTP address of a collector; nothing is recorded without; "
    "see [observability](observability.md#traces)",
    "traces_headers": "sent with each batch of them, such as the collector's key",
    "traces_sampled": "share of requests that are recorded",
    "log_level": "the lowest level that is logged",
}
"""The purpose of each setting, in the order of the table."""

# Rules that no validator of the settings carries: they are checked where the value is used.
MUST = {
    "secrets_key": "base64url of 32 bytes, several with commas; required",
    "ledger_keys": "base64url of 32 bytes, several with commas",
    "room_key": "base64url of 32 bytes",
    "home_page": "`true` or `false`",
    "media_cpu_percent": "from 10 to 100, or 0",
    "drain_s": "a whole number of at least 0",
    "meeting_retention_days": "a whole number of at least 0",
    "note_retention_days": "a whole number of at least 0",
    "four_eyes_above": "a whole number of at least 0",
}
REQUIRED = {"database_url": "; required"}


ABILITIES = {
    "name": "the name that the adapter is registered under",
    "password": "the passwords that it accepts; with `None` a request with a password is refused",
    "has_recording": "it records: the plugin has `files`. Else `with_recording` and `auto_notulen` are "
    "refused",
    "has_capacity": "a meeting takes the seats of its tier. Else meetings show `capacity` as `null`",
    "has_login": "it can demand a login. Else `must_login` is refused",
    "has_mute": "it can mute who joins. Else `mic_off` is refused",
    "has_notification": "it mails the host. Else `email_notification` is refused",
    "has_hosts": "each meeting takes a host, which an operator adds (`meetcore host add`) and "
    "`provider_user_id` names. Else that is empty, and no host is ever lacking",
    "creations_per_host_day": "a limit of each host between midnights in UTC: at it, `create` raises "
    "`HostUnavailable`",
    "host_key_digits": "hosts have keys of this length: `set_host_key` sets one. With `None` it raises "
    "`ProviderRefused`",
    "remembers_meetings": "after a removal `find` is empty and `remove` says `GONE`. Else meetings are "
    "derived from the order, and nothing is stored",
    "leaves_orphans": "one `create` may make two meetings, or one after it was given up: for five minutes "
    "`find` is called again, and what is too much is removed",
    "lists_meetings": "`list_host` and `read` serve `meetcore reconcile`. Else they return nothing: an empty "
    "list, and `None`",
}
"""The meaning of each ability of a provider."""


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
    """Return every ability with its default and meaning."""
    return _table(
        ("ability", "default", "meaning"),
        (
            (
                f"`{each.name}`",
                "" if each.default is attrs.NOTHING else f"`{each.default}`",
                ABILITIES[each.name],
            )
            for each in attrs.fields(meetings.ProviderAbilities)
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
    """Return every setting with its default and its rule."""
    fields = {field.name: field for field in attrs.fields(Settings)}
    if fields.keys() != ABOUT.keys():
        raise SystemExit(f"ABOUT must describe these: {sorted(fields.keys() ^ ABOUT.keys())}")
    rows = []
    for name, about in ABOUT.items():
        field = fields[name]
        default = str(field.default).lower() if field.type is bool else str(field.default)
        shown = f"`{default}`" if default else "empty"
        rows.append((f"`{PREFIX}{name.upper()}`", shown, _must(field), about))
    return _table(("variable", "default", "must be", "purpose"), rows)


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
