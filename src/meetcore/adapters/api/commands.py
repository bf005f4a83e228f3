"""A request as a command for a shell, as documents and pages show it."""

import json
import shlex
from typing import Any

KEY_VARIABLE = "MEETCORE_API_KEY"
_LONGEST_LINE = 60


def curl_command(method: str, url: str, body: Any = None, *, with_idempotency_key: bool = False) -> str:
    """Write a request for `curl`; the API key stays in its variable.

    `body` is a JSON value, or `None` for no body. With an idempotency key, each run is a new intent.
    """
    lines = [f"curl -sS{'' if method == 'GET' else f' -X {method}'} {shlex.quote(url)}"]
    lines.append(f'-H "Authorization: Bearer ${KEY_VARIABLE}"')
    if with_idempotency_key:
        lines.append('-H "Idempotency-Key: $(uuidgen)"')
    if body is not None:
        lines.append("-H 'Content-Type: application/json'")
        lines.append(f"-d {shlex.quote(_json_text(body))}")
    return " \\\n  ".join(lines)


def _json_text(body: Any) -> str:
    text = json.dumps(body, ensure_ascii=False)
    return text if len(text) <= _LONGEST_LINE else json.dumps(body, ensure_ascii=False, indent=2)
