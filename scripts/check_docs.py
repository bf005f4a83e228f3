"""The parts of docs/ generated from the code: tables of errors, settings and events, and the served pages.

Without arguments it writes them between their markers; with `--check` it writes nothing and exits 1
where a page is stale. The text around the markers is written by hand.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import attrs
import typed_settings

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "scripts"), str(ROOT)]

import architecture  # noqa: E402  # the path comes first
import check_statements  # noqa: E402

from benchmarks import spread  # noqa: E402
from meetcore.adapters.api.answers import STATUS  # noqa: E402
from meetcore.adapters.api.example_events import EVENTS, payload  # noqa: E402
from meetcore.adapters.http.docs import PAGES  # noqa: E402
from meetcore.adapters.http.error_pages import ERROR_PAGES  # noqa: E402
from meetcore.adapters.postgres.migration_steps import load_migrations, schemas_of  # noqa: E402
from meetcore.adapters.settings import PREFIX, Settings  # noqa: E402
from meetcore.domain.members.roles import (  # noqa: E402
    ALLOWED,
    OPERATORS_ALLOWED,
    Action,
    OperatorAction,
    scopes_of,
)
from meetcore.domain.requests.keys import Scope  # noqa: E402
from meetcore.domain.webhooks.events import EventKind  # noqa: E402
from meetcore.domain.webhooks.retry_schedule import DEFAULT_DELAYS_S  # noqa: E402

SERVED = "src/meetcore/adapters/http/pages"

ABOUT = {
    "database_url": "where PostgreSQL is; `dev` brings its own",
    "secrets_key": "what secrets are encrypted with: the first key encrypts, all decrypt",
    "base_url": "the address that customers use: in join links, `Location` and `docs_url`",
    "broker_url": "wakes the workers of other processes",
    "broker_queues": "`quorum` for a cluster of RabbitMQ, whose queues then outlive the loss of a node; see "
    "[scaling](scaling.md#8-a-cluster-of-rabbitmq)",
    "rate_store_url": "counts requests for all processes",
    "provider": "who runs the meetings",
    "jitsi_url": "the Jitsi server that links lead to",
    "zoom_account_id": "the account whose hosts hold the meetings",
    "zoom_client_id": "the server-to-server application of that account",
    "zoom_client_secret": "its secret",
    "zoom_webhook_token": "the application's secret token, which Zoom signs its events with",
    "zoom_api_url": "Zoom's API, for a stand-in or a proxy",
    "zoom_oauth_url": "where its tokens come from",
    "ai_base_url": "an endpoint that speaks OpenAI's API, with its version; it transcribes and writes",
    "ai_api_key": "its key; empty for one that wants none",
    "ai_transcribe_model": "the model that transcribes",
    "ai_transcribe_format": "`json` for a model that returns no times: seconds are then approximate",
    "ai_write_model": "the model that writes",
    "ai_context_chars": "of a transcript given to the model at a time; a longer one goes in parts",
    "ai_timeout_s": "seconds for one call of that endpoint as a whole",
    "smtp_url": "the mail server; without one no mail is sent. TLS to any host but this machine: `smtps://` "
    "from the beginning, `smtp://` by STARTTLS",
    "smtp_ca_file": "authorities that the mail server's certificate may be of, beside the system's",
    "mail_from": "who mails are from",
    "mails_per_recipient": "mails an hour to one recipient; more are dropped",
    "four_eyes_above": "credits that an operator moves alone in the console; more are proposed, and another "
    "operator approves them; 0 lets one move any",
    "mails_per_account": "mails an hour for one account",
    "sign_up": "who may open an account at `/dashboard/sign-up`: nobody (`closed`), who is a member of "
    "another account (`invited`), or who has an e-mail address (`open`); needs a mail server",
    "oidc_issuer": "the OpenID provider at which members sign in; see [single sign-on](#single-sign-on)",
    "oidc_client_id": "this service's client there",
    "oidc_client_secret": "its secret",
    "console_oidc_issuer": "the OpenID provider at which operators sign in to the console",
    "console_oidc_client_id": "this service's client there",
    "console_oidc_client_secret": "its secret",
    "tiers_file": "replaces the default pricing tiers",
    "key_prefix": "what every API key begins with; keys with another prefix stop working",
    "quota_read": "reads of one key in one minute",
    "quota_write": "changes of one key in one minute",
    "quota_credit": "requests that cost credits, of one key in one minute",
    "quota_tool": "agent tool calls of one key in one minute",
    "duplicates_waiting": "requests that wait, in one process, for the result of a running one with the same "
    "`Idempotency-Key`; more are answered 503",
    "download_streams_per_link": "downloads of one link at once, in one process; more are answered 429",
    "download_streams_per_account": "downloads of one account at once, in one process",
    "download_min_bytes_per_s": "bytes a second that the reader of a download must take, or it is cut",
    "download_rate_window_s": "seconds over which that rate is measured",
    "mcp": "serves agents at `/mcp`, where the extra `mcp` is installed; `false` does not import it",
    "webhook_allowed_networks": "networks that webhooks may go to although they are not public",
    "webhook_denied_networks": "networks that no webhook goes to, beside those that are not public; they win "
    "over the allowed ones",
    "webhook_ca_file": "authorities that webhooks believe beside the system's",
    "webhook_retry_schedule": "seconds before the second, third, ... attempt",
    "meeting_lease_s": "seconds for which a process owns a meeting that it makes or cancels; more than 10",
    "webhook_lease_s": "seconds for which a worker owns a delivery that it posts; more than 20",
    "webhook_endpoints_per_account": "webhooks that an account may have, paused and disabled ones included",
    "webhook_posts_per_endpoint": "posts in flight at one endpoint, over all workers",
    "webhook_posts_per_host": "posts in flight at one destination host, over all accounts and workers; one "
    "account gets at most half of them",
    "webhook_posts_per_host_per_s": "posts to one destination host in a second, over all of them",
    "webhook_lookups_per_account": "DNS look-ups under way for one account, in each process",
    "webhook_lookups_per_domain": "DNS look-ups under way in one registrable domain, in each process",
    "webhook_posts_in_flight": "posts in flight in one worker; one account gets at most a quarter of them",
    "query_parameters": "parameters in the query of one request",
    "query_bytes": "bytes of the query of one request",
    "head_bytes": "bytes of the head of one request, its address and header fields",
    "head_timeout_s": "seconds from the first byte of a head, or from the connection, to its end",
    "body_timeout_s": "seconds for a body",
    "body_bytes_per_s": "bytes a second that a body must come at, judged from half of its time on",
    "connections": "open connections of each process of `serve`; beyond them the one that waited longest "
    "without a request is closed",
    "connections_per_address": "open connections from one address, or one IPv6 /64, to each process",
    "provider_event_bytes": "memory for events of a provider that are larger than 64 KiB, while they come in",
    "drain_s": "seconds for which `serve` and `dev` go on after SIGTERM, with `/readyz` at 503",
    "trusted_proxies": "proxies whose `X-Forwarded-For` names the client; see "
    "[behind a proxy](#behind-a-proxy)",
    "orphan_window_s": "seconds after a creation, or after the last orphan, for which the list of a provider "
    "that may be late is looked at for orphans: meetings without a record here",
    "account_creations_percent": "of what other accounts left of the creations that the provider allows in a "
    "day, how much one account may use; 100 is no limit",
    "ledger_keys": "keys that old entries of the ledger are verified under, of keys that were removed from "
    "`MEETCORE_SECRETS_KEY`; see [the secrets key](#the-secrets-key)",
    "room_key": "what names of Jitsi's rooms, or links of sandbox meetings, follow from, where it is not the "
    "last key of `MEETCORE_SECRETS_KEY`",
    "pdf_fonts": "fonts of PDFs for characters that Noto Sans lacks (Chinese, Arabic, symbols), tried in "
    "this order",
    "scratch_directory": "where media lies while it is worked on: on a disk, in files without names",
    "media_cpu_percent": "of one processor that each process takes that works on media; 0 is 25 on a machine "
    "of up to three processors and 100 on others",
    "recording_retention_days": "days for which a recording is kept; one that is there keeps its own",
    "meeting_retention_days": "days after its end for which a meeting is kept; 0 is for good; see "
    "[retention](#retention)",
    "note_retention_days": "days for which a note is kept; 0 is as many as a meeting",
    "event_retention_days": "days for which events, deliveries and attempts are kept and shown; their rows "
    "go "
    "with the partition that they are in, up to a period later",
    "event_partition_days": "days that a partition of events, deliveries and attempts holds",
    "notes_in_flight": "notes in progress, over all workers; each has one call to the AI provider at a time",
    "note_lease_s": "seconds after which a dead worker's note or recording is taken over",
    "note_retry_schedule": "seconds before the second, third, ... try of a step of a note",
    "transcript_wait_s": "seconds for which notes wait for a transcript of the video provider's",
    "database_pooler": "`transaction` behind PgBouncer in transaction mode; see "
    "[behind PgBouncer](#behind-pgbouncer)",
    "database_direct_url": "where PostgreSQL itself is, for `migrate`; with a pooler required there",
    "database_pool_size": "connections to PostgreSQL of each process, at most",
    "database_read_url": "a standby that lists of the API may be read from, with what their caller has "
    "written; see [lists from a standby](failover.md#lists-from-a-standby)",
    "database_read_pool_size": "connections to the standby of each process of `serve`, at most",
    "database_read_lag_s": "seconds that the standby may be behind in what others have written",
    "database_timeout_s": "seconds after which a transaction is given up, the wait for a connection "
    "included; PostgreSQL itself ends each statement 2 s sooner",
    "unknown_keys_pool_percent": "of the connections, at most, that look up API keys that were not valid "
    "in the last ten minutes",
    "unknown_key_remembered_s": "seconds for which a key that was not found is refused without asking "
    "PostgreSQL",
    "ready_timeout_s": "seconds within which PostgreSQL must answer `/readyz`",
    "verify_every": "how often workers verify the whole ledger, a little at a time; 0 is never",
    "traces_url": "where traces are sent: the OTLP/HTTP address of a collector; nothing is recorded without; "
    "see [observability](observability.md#traces)",
    "traces_headers": "sent with each batch of them, such as the collector's key",
    "traces_sampled": "share of requests that are recorded",
    "traces_callers_per_s": "requests in a second, of each process, that are recorded because their callers "
    "recorded them (`traceparent`); 0 leaves it to that share",
    "log_level": "what is logged, from this level up",
}
"""What each setting is for, in the order of the table."""

# Rules that no validator of the settings carries: they are checked where the value is used.
MUST = {
    "secrets_key": "base64url of 32 bytes, several with commas; required",
    "ledger_keys": "base64url of 32 bytes, several with commas",
    "room_key": "base64url of 32 bytes",
    "mcp": "`true` or `false`",
    "media_cpu_percent": "from 10 to 100, or 0",
    "transcript_wait_s": "a whole number of at least 0",
    "drain_s": "a whole number of at least 0",
    "meeting_retention_days": "a whole number of at least 0",
    "note_retention_days": "a whole number of at least 0",
    "four_eyes_above": "a whole number of at least 0",
    "unknown_key_remembered_s": "a whole number of at least 0",
    "traces_callers_per_s": "a whole number of at least 0",
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
    """Return every page with generated parts, as it must be. A served page is the source of its copy."""
    pages = {
        f"{SERVED}/webhooks.md": {
            "events": event_table(), "payload": payload_block(), "retries": retry_sentence(),
        },
        f"{SERVED}/integrating.md": {},
        f"{SERVED}/notulen.md": {},
        "docs/architecture.md": architecture.drawings(),
        "docs/errors.md": {"errors": error_table()},
        "docs/operating.md": {"settings": settings_table(), "schemas": schemas_sentence()},
        "docs/scaling.md": {"owners": owners_sentence()},
        "docs/roles.md": {
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
    return wanted | {f"docs/{name}.md": wanted[f"{SERVED}/{name}.md"] for name in PAGES}


def placed(text: str, name: str, table: str) -> str:
    """The page with a table between its markers."""
    begin, end = f"<!-- generated: {name} -->\n", f"<!-- end of {name} -->"
    found = re.search(f"{re.escape(begin)}.*?{re.escape(end)}", text, re.DOTALL)
    if found is None:
        raise SystemExit(f"the markers of {name} are missing")
    return text[: found.start()] + begin + "\n" + table + "\n" + end + text[found.end() :]


def error_table() -> str:
    """Return every code with the text of its page, as `GET /docs/errors/<code>` shows them."""
    lines = ["| code | status | meaning | what to do | does a retry help? | `details` |", "|" + "---|" * 6]
    for code, page in ERROR_PAGES.items():
        cells = (f"`{code}`", str(STATUS[code]), page.meaning, page.remedy, page.retry, page.details)
        lines.append(_row(cells))
    return "\n".join(lines) + "\n"


def event_table() -> str:
    """Every kind of event."""
    rows = [_row((f"`{kind.value}`", EVENTS[kind].about)) for kind in EventKind]
    return "\n".join(["| kind | what it means |", "|---|---|", *rows]) + "\n"


def payload_block() -> str:
    """A whole payload."""
    shown = json.dumps(payload(EventKind.MEETING_CREATED), indent=2, ensure_ascii=False)
    return f"```json\n{shown}\n```\n"


def retry_sentence() -> str:
    """When a failed delivery is tried again, unless the operator has set another schedule."""
    *waits, last = (_duration(delay_s) for delay_s in DEFAULT_DELAYS_S)
    return (
        f"A failed delivery is tried again after {', '.join(waits)} and {last}: {len(DEFAULT_DELAYS_S) + 1} "
        "attempts in all. Then it is `failed`, and can be sent again by hand.\n"
    )


def owners_sentence() -> str:
    """How much of the schema and of the statements is one account's, by `benchmarks.spread`."""
    return spread.owned_sentence(spread.SCHEMA.read_text("utf-8"), check_statements.page()) + "\n"


def _duration(seconds: int) -> str:
    for size, unit in ((3600, "h"), (60, "min"), (1, "s")):
        if seconds % size == 0:
            return f"{seconds // size} {unit}"
    raise AssertionError(seconds)


def schemas_sentence() -> str:
    """The schemas that this release runs on."""
    runs_on = schemas_of(load_migrations())
    oldest, newest = f"{runs_on.oldest:04}", f"{runs_on.newest:04}"
    return f"This release runs on schemas from migration {oldest} on; the newest that it knows is {newest}.\n"


def role_table(actions: type[StrEnum], allowed: Mapping[Any, frozenset[Any]]) -> str:
    """Every pair of action and role."""
    rows = [
        _row((f"`{action.value}`", *("yes" if action in allowed[role] else "" for role in allowed)))
        for action in actions
    ]
    return "\n".join([_row(("action", *allowed)), "|" + "---|" * (len(allowed) + 1), *rows]) + "\n"


def role_scopes_table() -> str:
    """The scopes of each role's own actions."""
    rows = [
        _row((role, ", ".join(f"`{each}`" for each in Scope if each in scopes_of(role)))) for role in ALLOWED
    ]
    return "\n".join(["| role | scopes |", "|---|---|", *rows]) + "\n"


def settings_table() -> str:
    """Every setting, its default and its rule."""
    fields = {field.name: field for field in attrs.fields(Settings)}
    if fields.keys() != ABOUT.keys():
        raise SystemExit(f"tell in ABOUT what these are for: {sorted(fields.keys() ^ ABOUT.keys())}")
    lines = ["| variable | default | must be | what it is for |", "|" + "---|" * 4]
    for name, about in ABOUT.items():
        field = fields[name]
        default = str(field.default).lower() if field.type is bool else str(field.default)
        shown = f"`{default}`" if default else "empty"
        lines.append(_row((f"`{PREFIX}{name.upper()}`", shown, _must(field), about)))
    return "\n".join(lines) + "\n"


def _must(field: attrs.Attribute[Any]) -> str:
    """Return the validator's error message for an impossible value."""
    if field.name in MUST:
        return MUST[field.name]
    impossible: object = 0 if field.type is int else -1.0 if field.type is float else "\0"
    if field.type is typed_settings.SecretStr:
        impossible = typed_settings.SecretStr("\0")
    try:
        field.validator(None, field, impossible)
    except ValueError as refusal:
        rule = str(refusal).partition(" must be ")[2]
        return rule.partition("; see ")[0] + REQUIRED.get(field.name, "")
    raise SystemExit(f"{field.name} takes anything: give its rule in MUST")


def _row(cells: tuple[str, ...]) -> str:
    # Text in angle brackets would be taken for HTML and not be shown.
    shown = (cell.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ") for cell in cells)
    return "| " + " | ".join(shown) + " |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
