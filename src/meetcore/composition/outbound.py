"""Can webhooks be posted from this machine: does a name server answer, and is TLS possible?

No stranger is asked: a name that cannot exist is looked up, and TLS is tried with the server of the video
provider, or with our own base URL. `doctor` shows the fault, a worker logs it when it starts.
"""

import socket
import ssl
from threading import Thread
from urllib.parse import urlsplit

import structlog

from meetcore.adapters.settings import Settings
from meetcore.adapters.settings.plugins import SENDERS
from meetcore.adapters.tls import client_context
from meetcore.adapters.webhook_sender.resolver import answers_lookups
from meetcore.adapters.webhook_sender.trust import holds_authorities

log = structlog.get_logger("meetcore.worker")

TIMEOUT_S = 5.0
_SERVERS = {
    "zoom": ("MEETCORE_ZOOM_API_URL", "zoom_api_url"),
    "jitsi": ("MEETCORE_JITSI_URL", "jitsi_url"),
    "sandbox": ("MEETCORE_BASE_URL", "base_url"),
}


def posting_fault(settings: Settings) -> str | None:
    """Return in one sentence why no webhook can be posted from here; `None` where nothing is known."""
    if not answers_lookups():
        return "no name server answers: check /etc/resolv.conf and that its servers are reached from here"
    context = client_context(settings.ca_file or None)
    if not holds_authorities(context, ssl.get_default_verify_paths().capath):
        return "there are no certificate authorities: install ca-certificates, or set MEETCORE_CA_FILE"
    variable, name = _SERVERS.get(settings.provider, _SERVERS["sandbox"])
    place = urlsplit(str(getattr(settings, name)))
    if place.scheme != "https" or place.hostname is None:
        return None
    fault = _handshake_fault(context, place.hostname, place.port or 443)
    return fault and f"{fault} of {variable}"


def _handshake_fault(context: ssl.SSLContext, host: str, port: int) -> str | None:
    try:
        with (
            socket.create_connection((host, port), TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return None
    except ssl.SSLCertVerificationError as error:
        return f"no TLS ({error.verify_message}; check this machine's clock and authorities) with the server"
    except socket.gaierror:
        return "no address is found for the name"
    except OSError as error:
        return f"no connection ({error.strerror or type(error).__name__}) to the server"


def warn_of_posting(settings: Settings) -> None:
    """Log from a thread of its own why no webhook can be posted from here; not for a sender of others."""
    if SENDERS.is_foreign(settings.sender):
        return

    def check() -> None:
        if fault := posting_fault(settings):
            log.error("webhooks in doubt", hint=fault)

    Thread(target=check, name="outbound", daemon=True).start()
