"""A request as a command for a shell, as documents and pages show it."""

import json
import shlex
from typing import Any

_LONGEST_LINE = 60


def curl_command(method: str, url: str, body: str = "", *, with_idempotency_key: bool = False) -> str:
    """Write a request for `curl`; the API key stays in the variable `MEETCORE_API_KEY`.

    `body` is JSON, or empty for none. With an idempotency key, each run is a new intent.
    """
    lines = [f"curl -sS{'' if method == 'GET' else f' -X {method}'} {shlex.quote(url)}"]
    lines.append('-H "Authorization: Bearer $MEETCORE_API_KEY"')
    if with_idempotency_key:
        lines.append('-H "Idempotency-Key: $(uuidgen)"')
    if body:
        lines += ["-H 'Content-Type: application/json'", f"-d {shlex.quote(body)}"]
    return " \\\n  ".join(lines)


def json_text(value: Any) -> str:
    """Write a JSON value for people: on one line if it is short."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_LINE else json.dumps(value, ensure_ascii=False, indent=2)
