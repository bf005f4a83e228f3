"""What the tests of the rules share."""

from collections.abc import Iterator
from time import tzset

import pytest


@pytest.fixture
def far_from_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose own clock on the wall is thirteen hours ahead of UTC."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "XXX-13")
        tzset()
        yield
    tzset()
