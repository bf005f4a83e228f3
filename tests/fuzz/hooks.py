"""What the schema does not express: URLs that may be registered, days that can be booked, visible titles."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import schemathesis
from hypothesis import strategies as st
from schemathesis.generation.meta import TestPhase

from meetcore.domain.requests.idempotency import is_idempotency_key
from meetcore.domain.texts import is_blank

_LABEL = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=12)
_PATH = st.text("abcdefghijklmnopqrstuvwxyzABC0123456789-_~/", max_size=40)
_TODAY = datetime.now(UTC).date()

URLS = st.builds("https://{}.test{}/{}".format, _LABEL, st.sampled_from(["", ":443"]), _PATH)
DAYS = st.integers(-2, 400).map(lambda days: (_TODAY + timedelta(days=days)).isoformat())

schemathesis.openapi.format("uri", URLS)
schemathesis.openapi.format("date", DAYS)


@schemathesis.hook
def filter_body(context: Any, body: Any) -> bool:
    """Leave out titles without a character that can be seen, which the schema cannot say."""
    title = body.get("title") if isinstance(body, dict) else None
    return not (isinstance(title, str) and title and is_blank(title))


@schemathesis.hook
def before_call(context: Any, case: Any, **kwargs: Any) -> None:
    """Give the requests of a sequence keys that no other sequence has.

    The replayed answer of another sequence may name a resource that was deleted there. The tool knows the
    deletions of one sequence only, and would report that a created resource is not found.
    """
    key = case.headers.get("Idempotency-Key", "") if case.headers else ""
    if case.meta and case.meta.phase.name == TestPhase.STATEFUL and is_idempotency_key(key):
        case.headers["Idempotency-Key"] = str(uuid4())
