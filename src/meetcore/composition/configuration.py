"""Policy, keys and warnings from the settings.

Values are sealed under `MEETCORE_SECRETS_KEY` alone. Keys for other uses are derived from it, so that a
derived key can be given by itself when its source is removed. Each function raises `SettingsRefused`.
"""

from collections.abc import Mapping
from datetime import timedelta
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

import structlog

from meetcore.adapters.postgres import migrate, pooler, roles
from meetcore.adapters.secrets import derive, keys_from_text, text_from_keys
from meetcore.adapters.settings import SecretStr, Settings, SettingsRefused, strange_variables
from meetcore.composition.policy import Policy
from meetcore.domain.members.sign_in import SignUpMode
from meetcore.domain.money.hash_chain import ChainKey
from meetcore.domain.requests.rate_window import Quotas
from meetcore.domain.requests.retention import Retention
from meetcore.domain.webhooks.views import ClaimLimits

POSTS_A_SECOND = 50
"""To one destination host for each 16 posts in flight: a receiver takes some 0.3 s for each."""
INSTALL_NOTES: Final = "pip install 'meetcore[server,notes]'"
CHAIN_PURPOSE: Final = "ledger chain"
LINK_PURPOSE: Final = "download links"
GATEWAY_PURPOSE: Final = "sandbox payments"
ROOM_PURPOSES: Final[Mapping[str, str]] = {"jitsi": "jitsi rooms", "sandbox": "sandbox join links"}
"""The purposes of the keys of room addresses, by the provider's name."""


def check_schema(settings: Settings) -> None:
    """Check that the schema of the database is this release's, and that sessions have the settings they need.

    Raises `SettingsRefused` where the schema lacks a migration, or is newer than this release; or there is a
    pooler, and the role lacks settings of a session, or the pooler was not declared and drops them.
    """
    url = settings.require_database()
    try:
        lacking = migrate.missing(url)
        check_settings = pooler.check_role_settings if settings.is_pooled else pooler.check_sent_settings
        check_settings(url, settings.database_timeout_s)
    except (migrate.MigrationRefused, pooler.MissingSettings) as error:
        raise SettingsRefused(str(error)) from None
    if lacking:
        raise SettingsRefused("the schema is not up to date: run `meetcore migrate` first")


def policy_of(settings: Settings) -> Policy:
    """Read the policy of an application from the settings."""
    keys, in_flight = check_secrets(settings), settings.webhook_posts_in_flight
    per_host = settings.webhook_posts_per_host
    return Policy(
        catalogue=settings.catalogue,
        note_writer=settings.note_writer,
        base_url=settings.base_url,
        support_contact=settings.support_contact,
        is_sandbox=settings.provider == "sandbox",
        key_prefix=settings.key_prefix,
        packages=settings.packages,
        four_eyes_above=settings.four_eyes_above or None,
        quotas=Quotas(settings.quota_read, settings.quota_write, settings.quota_credit, settings.quota_tool),
        pages_per_minute=settings.quota_page,
        # A flood of wrong keys keeps three quarters of the connections free for right ones.
        unknown_keys_at_once=max(1, settings.database_pool_size // 4),
        events_kept=settings.events_kept,
        account_creations_percent=settings.account_creations_percent,
        allowed_networks=settings.allowed_networks,
        denied_networks=settings.denied_networks,
        retry_schedule=settings.retry_schedule,
        claim_limits=ClaimLimits(
            total=in_flight,
            per_account=max(ClaimLimits().per_endpoint, in_flight // 4),
            per_host=per_host,
            per_host_per_s=per_host * POSTS_A_SECOND // 16,
        ),
        recording_retention=timedelta(days=settings.recording_retention_days),
        retention=Retention(settings.meeting_retention_days, settings.note_retention_days),
        note_schedule=settings.note_schedule,
        notes_in_flight=settings.notes_in_flight,
        transcript_wait_s=settings.transcript_waited_s,
        empty_for=timedelta(seconds=settings.meeting_empty_for_s),
        verify_every_s=settings.verify_every_s,
        sign_up=SignUpMode(settings.sign_up),
        link_keys=tuple(derive(key, LINK_PURPOSE) for key in keys),
        chain_keys=tuple(ChainKey.of(secret) for secret in chain_secrets(settings, keys)),
    )


def check_secrets(settings: Settings) -> tuple[bytes, ...]:
    """Return the keys of `MEETCORE_SECRETS_KEY`, at least one; the first seals, all open."""
    return _read(settings.secrets_key, "MEETCORE_SECRETS_KEY")


def chain_secrets(settings: Settings, keys: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Return the secrets of the ledger's chain keys: of the present keys, then of removed ones."""
    present = tuple(derive(key, CHAIN_PURPOSE) for key in keys)
    return (*present, *(each for each in _ledger_keys(settings) if each not in present))


def room_secret(settings: Settings, keys: tuple[bytes, ...], purpose: str) -> bytes:
    """Return the secret of a provider's room addresses, which has to stay the same while they are in use."""
    if not str(settings.room_key):
        return derive(keys[-1], purpose)
    given = _read(settings.room_key, "MEETCORE_ROOM_KEY")
    if len(given) > 1:
        raise SettingsRefused("MEETCORE_ROOM_KEY holds several keys: rooms follow from one")
    return given[0]


def kept_of_removed(settings: Settings) -> Mapping[str, str]:
    """Return the settings, secrets all, to keep before every key but the first is removed."""
    keys = check_secrets(settings)
    kept = dict.fromkeys([*(derive(key, CHAIN_PURPOSE) for key in keys[1:]), *_ledger_keys(settings)])
    found = {"MEETCORE_LEDGER_KEYS": text_from_keys(kept)} if kept else {}
    purpose = ROOM_PURPOSES.get(settings.provider)
    if purpose is not None and (len(keys) > 1 or str(settings.room_key)):
        found["MEETCORE_ROOM_KEY"] = text_from_keys([room_secret(settings, keys, purpose)])
    return found


def _ledger_keys(settings: Settings) -> tuple[bytes, ...]:
    return _read(settings.ledger_keys, "MEETCORE_LEDGER_KEYS") if str(settings.ledger_keys) else ()


def _read(text: SecretStr, name: str) -> tuple[bytes, ...]:
    try:
        return keys_from_text(str(text), name)
    except ValueError as error:
        raise SettingsRefused(str(error)) from None


log = structlog.get_logger("meetcore")


def warn_of_settings(settings: Settings) -> None:
    """Log one line for each setting that is likely to cause problems for customers or operators."""
    for fault in base_url_faults(settings):
        log.warning("setting in doubt", hint=fault)
    if strange := strange_variables(settings):
        log.warning(
            "unknown variables", variables=strange, hint="they are no settings of meetcore and change nothing"
        )


def warn_of_role(settings: Settings) -> None:
    """Log where the database's role could change the ledger, or lacks rights; raises `StoreUnavailable`."""
    for message in roles.describe_role(settings.require_database()):
        log.warning("database role", hint=message)


def base_url_faults(settings: Settings) -> list[str]:
    """Describe faults in the base URL of a service that others reach."""
    parts = urlsplit(settings.base_url)
    if _is_loopback(parts.hostname or ""):
        return []
    faults = []
    if parts.scheme == "http":
        faults.append(
            "MEETCORE_BASE_URL is http:// outside this machine: API keys and join links can be read on "
            "the way; end TLS at a proxy and use https://"
        )
    if settings.provider == "sandbox":
        faults.append("MEETCORE_PROVIDER is sandbox: meetings are sold and have no video; set jitsi or zoom")
    return faults


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
