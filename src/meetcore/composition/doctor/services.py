"""Checks of everything but the database: broker, rate store, providers, mail, sign-on, traces and others."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx

from meetcore.adapters.secrets import keys_from_text
from meetcore.adapters.settings import Settings, SettingsRefused
from meetcore.composition.doctor.report import CheckResult, failed, ok, warning
from meetcore.composition.identities import check_provider, oidc_clients
from meetcore.composition.mails import sends_mails, smtp_mailer
from meetcore.composition.start_warnings import base_url_faults
from meetcore.composition.tracing import check_traces
from meetcore.ports.identity_provider import IdentityUnavailable
from meetcore.ports.mailer import MailUnavailable

TIMEOUT_S = 5.0
_MAIL_FAULTS = {
    "connect": "no answer: check MEETCORE_SMTP_URL and that the server runs",
    "timeout": "no answer in time: check MEETCORE_SMTP_URL and that the server is reached from here",
    "disconnected": "the server hangs up: check the port in MEETCORE_SMTP_URL; smtps:// is another than smtp://",
    "tls": "no TLS: check the port, and that the certificate is of a known authority (MEETCORE_SMTP_CA_FILE)",
    "unsupported": "the server offers no STARTTLS, or no login that we know: try smtps://",
}
_NO_MAIL = (
    "no server set: no mail is sent, and no link signs in: set MEETCORE_SMTP_URL and "
    "MEETCORE_MAIL_FROM (`meetcore dev` needs none: it shows mails at /inbox/mails)"
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
        with redis.Redis.from_url(url, socket_connect_timeout=TIMEOUT_S, socket_timeout=TIMEOUT_S) as client:
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
    try:
        pika.BlockingConnection(parameters).close()
    except (pika.exceptions.AMQPError, OSError):
        return False
    return True


def _check_provider(settings: Settings) -> CheckResult:
    try:
        settings.require_provider()
    except SettingsRefused as error:
        return failed(str(error))
    if settings.provider == "zoom":
        return asyncio.run(_zoom_lets_us_in(settings))
    return ok(f"{settings.provider}, which needs no credentials")


async def _zoom_lets_us_in(settings: Settings) -> CheckResult:
    from meetcore.adapters.zoom import check_credentials
    from meetcore.composition.providers import zoom_access

    refusal = await check_credentials(zoom_access(settings))
    if refusal is None:
        return ok("zoom gives a token")
    return failed(
        f"zoom gives no token ({refusal}): check MEETCORE_ZOOM_ACCOUNT_ID, MEETCORE_ZOOM_CLIENT_ID and "
        "MEETCORE_ZOOM_CLIENT_SECRET, and that the app is activated"
    )


def _check_ai(settings: Settings) -> CheckResult:
    try:
        settings.require_ai()
    except SettingsRefused as error:
        return failed(str(error))
    if not settings.ai_base_url:
        return ok("none set: this machine transcribes and writes")
    key = str(settings.ai_api_key)
    status, body = _get(f"{settings.ai_base_url}/models", {"Authorization": f"Bearer {key}"} if key else {})
    match status:
        case 0:
            return failed("no answer: check MEETCORE_AI_BASE_URL; notes wait until it answers")
        case 401 | 403:
            return failed("the key is refused: check MEETCORE_AI_API_KEY; notes wait until then")
        case 200:
            return _judge_models(settings, body)
        case 404 | 405:
            return warning("answers, and lists no models: whether ours are there shows with the first note")
        case _:
            return failed(f"answers with status {status}: check MEETCORE_AI_BASE_URL")


def _judge_models(settings: Settings, body: Any) -> CheckResult:
    listed = body.get("data") if isinstance(body, dict) else None
    known = {model.get("id") for model in listed or () if isinstance(model, dict)}
    wanted = {
        "MEETCORE_AI_TRANSCRIBE_MODEL": settings.ai_transcribe_model,
        "MEETCORE_AI_WRITE_MODEL": settings.ai_write_model,
    }
    lacking = [name for name, model in wanted.items() if model and model not in known]
    if known and lacking:
        return warning(f"lets us in, and does not list the model of {' and '.join(lacking)}")
    return ok("lets us in")


def _check_mail(settings: Settings) -> CheckResult:
    try:
        is_sent = sends_mails(settings)
    except SettingsRefused as error:
        return failed(str(error))
    if not is_sent:
        return warning(_NO_MAIL)
    try:
        asyncio.run(smtp_mailer(settings, TIMEOUT_S).check())
    except MailUnavailable as error:
        answer = f"the server answers {error}: check user, password and MEETCORE_MAIL_FROM"
        return failed(f"{_MAIL_FAULTS.get(str(error), answer)}; mails wait")
    return ok("the server lets us in")


def _check_oidc(settings: Settings) -> CheckResult:
    try:
        clients = oidc_clients(settings)
    except SettingsRefused as error:
        return failed(str(error))
    names = ("MEETCORE_OIDC_ISSUER", "MEETCORE_CONSOLE_OIDC_ISSUER")
    found = [(name, client) for name, client in zip(names, clients, strict=True) if client is not None]
    if not found:
        return ok("none set: people sign in by passkey, by e-mail and by your own links")
    for name, client in found:
        try:
            asyncio.run(check_provider(client, TIMEOUT_S))
        except IdentityUnavailable as error:
            return failed(f"{_OIDC_FAULTS.get(str(error), 'no answer')}: check {name}; nobody signs in there")
    return ok("answers, and shows its keys")


def _check_traces(settings: Settings) -> CheckResult:
    try:
        check_traces(settings)
    except SettingsRefused as error:
        return failed(str(error))
    if not settings.traces_url:
        return ok("none set: nothing is recorded")
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
    faults = base_url_faults(settings)
    status, _ = _get(f"{settings.base_url}/healthz", {})
    if status != 200:
        faults.append(
            "no service answers at MEETCORE_BASE_URL from here: start `meetcore serve`, or check the proxy"
        )
    return warning("; ".join(faults)) if faults else ok("answers")


def _get(url: str, headers: dict[str, str]) -> tuple[int, Any]:
    """Return the status of an answer and its JSON, if any; 0 for no answer."""
    try:
        answer = httpx.get(url, headers=headers, timeout=TIMEOUT_S, trust_env=False, follow_redirects=False)
    except (httpx.HTTPError, httpx.InvalidURL):
        return 0, None
    try:
        return answer.status_code, answer.json()
    except ValueError:
        return answer.status_code, None


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
    "ai": _check_ai,
    "mail": _check_mail,
    "oidc": _check_oidc,
    "traces": _check_traces,
    "base_url": _check_base_url,
    "secrets": _check_secrets,
}
"""What needs no database."""
