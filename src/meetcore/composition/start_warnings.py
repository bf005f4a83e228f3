"""Warnings of a process that starts: settings that work and are probably not meant."""

from ipaddress import ip_address
from urllib.parse import urlsplit

import structlog

from meetcore.adapters.postgres.roles import describe_role
from meetcore.adapters.settings import Settings, strange_variables

log = structlog.get_logger("meetcore")


def warn_of_settings(settings: Settings) -> None:
    """Log one line for each setting that is likely to cause problems for customers or operators."""
    for fault in base_url_faults(settings):
        log.warning("setting in doubt", hint=fault)
    if strange := strange_variables():
        log.warning(
            "unknown variables", variables=strange, hint="they are no settings of meetcore and change nothing"
        )


def warn_of_role(settings: Settings) -> None:
    """Log one line where the database's role could change the ledger, or lacks what the service needs.

    Raises:
        StoreUnavailable: the database does not answer.
    """
    for message in describe_role(settings.require_database()):
        log.warning("database role", hint=message)


def base_url_faults(settings: Settings) -> list[str]:
    """Describe what is wrong with the base URL of a service that others reach."""
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
