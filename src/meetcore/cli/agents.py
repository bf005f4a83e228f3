"""`meetcore mcp`: the service's tools for an agent on this machine."""

import os
from typing import Annotated
from urllib.parse import urlsplit

from cyclopts import Parameter

from meetcore.adapters.settings import DEFAULT_BASE_URL
from meetcore.adapters.system import configure_logs
from meetcore.app import has_agent_interface
from meetcore.cli.inputs import InputRefused
from meetcore.cli.output import ExitCode, complain
from meetcore.cli.runner import guarded, run_service

KEY_VARIABLE = "MEETCORE_API_KEY"


def serve_agent(
    *, base_url: Annotated[str, Parameter(env_var="MEETCORE_BASE_URL")] = DEFAULT_BASE_URL
) -> None:
    """Speak the Model Context Protocol over standard input and output, for a desktop client.

    The API key is taken from MEETCORE_API_KEY: on the command line, others could read it.

    Parameters
    ----------
    base_url:
        Where the service is, without /mcp.
    """
    place = guarded(lambda: _place(base_url))
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
        run_service(bridge(place, key))
    except BridgeRefused as error:
        complain("refused", str(error), as_json=False)
        raise SystemExit(ExitCode.REFUSED) from None


def _place(base_url: str) -> str:
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or parts.query:
        raise InputRefused("--base-url is the service's address, such as https://meet.example.com")
    return base_url.rstrip("/").removesuffix("/mcp")
