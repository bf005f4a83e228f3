"""Checks for an operator: does everything that the settings name exist and accept our access?

Here are the checks of services, in `database_checks` those of PostgreSQL. They run concurrently, each in its
own thread with its own deadline. A check changes nothing and makes no meeting. Those of a page cost nothing;
`meetcore doctor` also lets each AI model do a small piece of work.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from meetcore.adapters.secrets import keys_from_text
from meetcore.adapters.settings import Settings, SettingsRefused, strange_variables
from meetcore.adapters.settings.plugins import (
    GATEWAYS,
    MAILERS,
    PROVIDERS,
    RATE_COUNTERS,
    SENDERS,
    Group,
)
from meetcore.adapters.tls import redis_options, without_strict
from meetcore.composition import adapter_checks, configuration, gateways, observability, plugins, providers
from meetcore.composition.adapter_checks import TIMEOUT_S, posting_fault
from meetcore.ports import identity, mails, store, video_provider
from meetcore.ports.figures import (
    CheckHealth,
    CheckResult,
    HealthStatus,
    failed,
    ok,
    skipped,
    warning,
)

DEADLINE_S = 10.0
"""Seconds that one check may take. The checks of the database follow the one that reaches it."""

Check = Callable[[Settings], CheckResult]
_MAIL_FAULTS = {
    "connect": "no answer: check MEETCORE_SMTP_URL and that the server runs",
    "timeout": "no answer in time: check MEETCORE_SMTP_URL and that the server is reached from here",
    "disconnected": "the server hangs up: check the port in MEETCORE_SMTP_URL; smtps:// is another than smtp://",
    "tls": "no TLS: check the port, and that the certificate is of a known authority (MEETCORE_CA_FILE)",
    "unsupported": "the server offers no STARTTLS, or no login that we know: try smtps://",
}
_NO_MAIL = (
    "no server set for this process: it sends no mail, and no link signs in: set MEETCORE_SMTP_URL and "
    "MEETCORE_MAIL_FROM (a `meetcore dev` beside it needs none: it shows mails at /inbox/mails)"
)
_OIDC_FAULTS = {
    "metadata": "no metadata of this issuer, which must be written as the provider itself writes it",
    "keys": "no keys at the address that its metadata names",
    "timeout": "no answer in time",
}
REDIS = ("redis://", "rediss://")


def _check_broker(settings: Settings) -> CheckResult:
    url = str(settings.broker_url)
    if not url:
        return ok("none set: `serve` does the worker's work in its own process")
    is_there = _redis_answers if url.startswith(REDIS) else _rabbitmq_answers
    return _ask_all(url, is_there, "MEETCORE_BROKER_URL", "webhooks are sent up to half a second later")


def _check_rate_store(settings: Settings) -> CheckResult:
    url = str(settings.rate_store_url)
    if RATE_COUNTERS.is_foreign(settings.counters_name):
        return _check_foreign(RATE_COUNTERS, settings)
    if not url:
        return ok("none set: the database counts")
    return _ask_all(url, _redis_answers, "MEETCORE_RATE_STORE_URL", "each process counts by itself")


def _ask_all(url: str, is_there: Callable[[str], bool], variable: str, effect: str) -> CheckResult:
    """Check each of the servers that an address names."""
    places = url.split(";")
    there = sum(is_there(place) for place in places)
    if there == len(places):
        return ok("answers")
    lost = f"{len(places) - there} of {len(places)} do not answer or refuse us"
    message = f"{lost}: check {variable}; until then {effect}"
    return warning(message) if there else failed(message)


def _redis_answers(url: str) -> bool:
    try:
        import redis
    except ModuleNotFoundError:
        return False
    try:
        with redis.Redis.from_url(
            url, socket_connect_timeout=TIMEOUT_S, socket_timeout=TIMEOUT_S, **redis_options(url)
        ) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False


def _rabbitmq_answers(url: str) -> bool:
    try:
        import pika
    except ModuleNotFoundError:
        return False
    parameters = pika.URLParameters(url)
    parameters.socket_timeout = parameters.stack_timeout = parameters.blocked_connection_timeout = TIMEOUT_S
    parameters.connection_attempts = 1
    if parameters.ssl_options is not None:
        without_strict(parameters.ssl_options.context)
    try:
        pika.BlockingConnection(parameters).close()
    except (pika.exceptions.AMQPError, OSError):
        return False
    return True


def _check_provider(settings: Settings) -> CheckResult:
    settings.require_provider()
    if settings.provider == "zoom":
        return asyncio.run(_zoom_lets_us_in(settings))
    if PROVIDERS.is_foreign(settings.provider):
        return _check_foreign(PROVIDERS, settings)
    return ok(f"{settings.provider}, which needs no credentials")


def _check_foreign(group: Group[Any], settings: Settings) -> CheckResult:
    return ok(asyncio.run(adapter_checks.check_foreign(group, settings)))


async def _zoom_lets_us_in(settings: Settings) -> CheckResult:
    from meetcore.adapters.zoom import account

    try:
        granted = await account.granted_scopes(providers.zoom_access(settings))
    except video_provider.ProviderRefused as error:
        refusal = str(error).removeprefix("zoom: no token: ").removeprefix("zoom: ")
        return failed(
            f"zoom gives no token ({refusal}): check MEETCORE_ZOOM_ACCOUNT_ID, MEETCORE_ZOOM_CLIENT_ID and "
            "MEETCORE_ZOOM_CLIENT_SECRET, and that the app is activated"
        )
    if not granted:
        return warning("zoom gives a token, and does not tell its scopes: see the list in docs/operating.md")
    if missing := account.missing_scopes(granted):
        lacking = ", ".join(missing)
        return failed(f"zoom gives a token without the scopes {lacking}: add them to the app, activate it")
    return ok("zoom gives a token with the scopes that are needed")


def _check_gateway(settings: Settings) -> CheckResult:
    if GATEWAYS.is_foreign(settings.payment_gateway):
        return _check_foreign(GATEWAYS, settings)
    return ok(asyncio.run(gateways.check_gateway(settings)))


def _check_mail(settings: Settings) -> CheckResult:
    if not providers.sends_mails(settings):
        return warning(_NO_MAIL)
    if MAILERS.is_foreign(settings.mailer_name):
        return _check_foreign(MAILERS, settings)
    try:
        asyncio.run(providers.smtp_mailer(settings, TIMEOUT_S).check())
    except mails.MailUnavailable as error:
        answer = f"the server answers {error}: check user, password and MEETCORE_MAIL_FROM"
        return failed(f"{_MAIL_FAULTS.get(str(error), answer)}; mails wait")
    return ok("the server lets us in")


def _check_oidc(settings: Settings) -> CheckResult:
    clients = providers.oidc_clients(settings)
    names = ("MEETCORE_OIDC_ISSUER", "MEETCORE_CONSOLE_OIDC_ISSUER")
    found = [(name, client) for name, client in zip(names, clients, strict=True) if client is not None]
    if not found:
        return ok("none set: people sign in by passkey, by e-mail and by your own links")
    for name, client in found:
        try:
            asyncio.run(providers.check_provider(client, TIMEOUT_S))
        except identity.IdentityUnavailable as error:
            return failed(
                f"{_OIDC_FAULTS.get(str(error), 'no answer')}: check {name}; no sign-in works there"
            )
    return ok("answers, and shows its keys")


def _check_traces(settings: Settings) -> CheckResult:
    observability.check_traces(settings)
    if not settings.traces_url:
        return ok("none set: nothing is recorded")
    import httpx  # `serve` imports this module, too, to show the checks on a page

    headers = {**settings.traces_header_fields, "Content-Type": "application/x-protobuf"}
    try:  # without a body: a batch of no spans
        answer = httpx.post(settings.traces_url, headers=headers, timeout=TIMEOUT_S, trust_env=False)
    except (httpx.HTTPError, httpx.InvalidURL):
        return failed("no answer: check MEETCORE_TRACES_URL; traces are lost until it answers")
    match answer.status_code:
        case 401 | 403:
            return failed("we are refused: check MEETCORE_TRACES_HEADERS; traces are lost until then")
        case 404 | 405:
            return failed("takes no traces there: check the path in MEETCORE_TRACES_URL, often /v1/traces")
        case status if 200 <= status < 300:
            return ok("takes traces")
        case status:
            return failed(f"answers with status {status}: check MEETCORE_TRACES_URL")


def _check_base_url(settings: Settings) -> CheckResult:
    faults = configuration.base_url_faults(settings)
    status, _ = adapter_checks.read_json(f"{settings.base_url}/healthz", {})
    if status != 200:
        faults.append(
            "no service answers at MEETCORE_BASE_URL from here: start `meetcore serve`, or check the proxy"
        )
    return warning("; ".join(faults)) if faults else ok("answers; forms are accepted from its origin")


def _check_outbound(settings: Settings) -> CheckResult:
    if SENDERS.is_foreign(settings.sender):
        return _check_foreign(SENDERS, settings)
    fault = posting_fault(settings)
    return ok("names are looked up, and TLS is possible") if fault is None else failed(fault)


def _check_settings(settings: Settings) -> CheckResult:
    adapters = plugins.describe(settings)
    if strange := strange_variables(settings):
        return warning(f"no settings of meetcore, which change nothing: {', '.join(strange)}")
    return ok(f"every MEETCORE_ variable is one; adapters: {adapters}")


def _check_secrets(settings: Settings) -> CheckResult:
    try:
        keys = keys_from_text(str(settings.secrets_key))
    except ValueError as error:
        return failed(str(error))
    return ok(f"{len(keys)} keys: the first encrypts, all decrypt" if len(keys) > 1 else "one key")


SERVICE_CHECKS: dict[str, Callable[[Settings], CheckResult]] = {
    "broker": _check_broker,
    "rate_store": _check_rate_store,
    "provider": _check_provider,
    "ai": adapter_checks.check_ai,
    "gateway": _check_gateway,
    "mail": _check_mail,
    "oidc": _check_oidc,
    "traces": _check_traces,
    "base_url": _check_base_url,
    "outbound": _check_outbound,
    "secrets": _check_secrets,
    "settings": _check_settings,
}
"""What needs no database."""


def run_checks(
    settings: Settings, deadline_s: float = DEADLINE_S, *, asks_models: bool = False
) -> dict[str, CheckResult]:
    """Run every check, each within `deadline_s`; return the results by name, the database's first.

    With `asks_models`, an AI endpoint is asked to write and to transcribe, which costs two small calls.
    """
    from meetcore.composition import database_checks

    services = _Running(SERVICE_CHECKS, settings, deadline_s)
    models = {"ai": adapter_checks.check_models} if asks_models else {}
    asked = _Running(models, settings, adapter_checks.MODELS_DEADLINE_S)
    reached = _Running({"database": database_checks.check_database}, settings, deadline_s).results()
    if reached["database"].status is HealthStatus.FAILED:
        database = dict.fromkeys(database_checks.DATABASE_CHECKS, skipped("the database is not reached"))
    else:
        database = _Running(database_checks.DATABASE_CHECKS, settings, deadline_s).results()
    return reached | database | services.results() | asked.results()


def result_of(check: Check, settings: Settings) -> CheckResult:
    """Run one check; settings that are refused, and faults, are failures."""
    try:
        return check(settings)
    except SettingsRefused as error:
        return failed(str(error))
    except store.StoreUnavailable:
        return failed("the database went away or was too slow: try again")
    except Exception as error:  # noqa: BLE001 - one check's defect must not hide the others
        # Its message may hold an address or a secret; its type does not.
        return failed(f"the check itself failed ({type(error).__name__}): please report it")


class _Running:
    """Checks that run in daemon threads."""

    def __init__(self, checks: Mapping[str, Check], settings: Settings, deadline_s: float) -> None:
        self._names = list(checks)
        self._deadline_s = deadline_s
        self._ends_at = time.monotonic() + deadline_s
        self._done: queue.SimpleQueue[tuple[str, CheckResult]] = queue.SimpleQueue()
        for name, check in checks.items():
            threading.Thread(target=self._run, args=(name, check, settings), daemon=True).start()

    def _run(self, name: str, check: Check, settings: Settings) -> None:
        self._done.put((name, result_of(check, settings)))

    def results(self) -> dict[str, CheckResult]:
        """Wait for all of them, up to the deadline."""
        found: dict[str, CheckResult] = {}
        while len(found) < len(self._names):
            try:
                name, result = self._done.get(timeout=max(0.0, self._ends_at - time.monotonic()))
            except queue.Empty:
                break
            found[name] = result
        late = failed(f"no answer within {self._deadline_s:g} s: see that it runs and is reached from here")
        return {name: found.get(name, late) for name in self._names}


PAGE_DEADLINE_S = 4.0
"""Seconds that a check may take: a page waits for it."""
_INBOX = ok("mails go to the inbox of this process alone")


def health_checks(settings: Settings, *, has_inbox: bool) -> CheckHealth:
    """Return the checks of a process; with an inbox, as in `meetcore dev`, mails go to no server."""

    async def check() -> Mapping[str, CheckResult]:
        found = await asyncio.to_thread(run_checks, settings, PAGE_DEADLINE_S)
        return found | ({"mail": _INBOX} if has_inbox else {})

    return check
