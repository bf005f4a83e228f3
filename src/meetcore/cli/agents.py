"""`meetcore mcp`: the service's tools for an agent on this machine."""

import os
from typing import Annotated
from urllib.parse import urlsplit

from cyclopts import Parameter

from meetcore.adapters.settings import DEFAULT_BASE_URL
from meetcore.adapters.system import configure_logs
from meetcore.app import has_agent_interface
from meetcore.cli import inputs, runner
from meetcore.cli.output import ExitCode, complain
from meetcore.domain.proxies import is_in_the_clear, proxy_of

KEY_VARIABLE = "MEETCORE_API_KEY"


def serve_agent(
    *,
    base_url: Annotated[str, Parameter(env_var="MEETCORE_BASE_URL")] = DEFAULT_BASE_URL,
    allow_http: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Speak the Model Context Protocol over standard input and output, for a desktop client.

    The API key is taken from MEETCORE_API_KEY: on the command line, others could read it.

    Parameters
    ----------
    base_url:
        Where the service is, without /mcp.
    allow_http:
        Send the key in the clear to another machine, in a network of your own.
    """
    place = _place(base_url)
    if is_in_the_clear(place) and not allow_http:
        raise inputs.InputRefused(
            "--base-url is not https: the key would be sent in the clear. Use https, "
            "or --allow-http in a network of your own"
        )
    configure_logs("warning")
    key = os.environ.get(KEY_VARIABLE, "")
    if not (key and key.isascii() and key.isprintable() and " " not in key):
        complain("settings", f"{KEY_VARIABLE} must be the API key, as it was shown once", as_json=False)
        raise SystemExit(ExitCode.SETTINGS)
    if not has_agent_interface():
        complain("settings", "mcp is not installed; this needs: pip install 'meetcore[mcp]'", as_json=False)
        raise SystemExit(ExitCode.SETTINGS)
    from meetcore.adapters.mcp.bridge import BridgeRefused, bridge  # an extra

    try:
        runner.run_service(bridge(place, key, proxy_of(place, os.environ)))
    except BridgeRefused as error:
        complain("refused", str(error), as_json=False)
        raise SystemExit(ExitCode.REFUSED) from None


def _place(base_url: str) -> str:
    if not _is_address(base_url):
        raise inputs.InputRefused("--base-url is the service's address, such as https://meet.example.com")
    return base_url.rstrip("/").removesuffix("/mcp")


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        has_place = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    is_clean = url.isprintable() and " " not in url
    return has_place and is_clean and "@" not in parts.netloc and not parts.query
