"""Values that the schema does not express: URLs that may be registered, and days that can be booked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import schemathesis
from hypothesis import strategies as st

_LABEL = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=12)
_PATH = st.text("abcdefghijklmnopqrstuvwxyzABC0123456789-_~/", max_size=40)
_TODAY = datetime.now(UTC).date()

URLS = st.builds("https://{}.test{}/{}".format, _LABEL, st.sampled_from(["", ":443"]), _PATH)
DAYS = st.integers(-2, 400).map(lambda days: (_TODAY + timedelta(days=days)).isoformat())

schemathesis.openapi.format("uri", URLS)
schemathesis.openapi.format("date", DAYS)
