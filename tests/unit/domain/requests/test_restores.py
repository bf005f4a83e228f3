"""Which idempotency keys a restore lost."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meetcore.domain.ids import uuid7
from meetcore.domain.requests.idempotency import is_key
from meetcore.domain.requests.restores import KEY_MARGIN, Restore, is_key_lost, key_made_at

AT = datetime(2026, 12, 1, 3, 0, tzinfo=UTC)
RESTORE = Restore(1, AT, AT + timedelta(minutes=30))
MILLISECOND = timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("made_at", "is_lost"),
    [
        (RESTORE.restored_to - KEY_MARGIN - MILLISECOND, False),
        (RESTORE.restored_to - KEY_MARGIN, True),
        (RESTORE.fenced_at, True),
        (RESTORE.fenced_at + MILLISECOND, False),
    ],
)
def test_a_key_is_lost_by_the_time_that_it_states(made_at: datetime, is_lost: bool) -> None:
    key = str(uuid7(made_at, bytes(range(10))))
    assert key_made_at(key) == made_at
    assert is_key_lost(key, RESTORE) is is_lost
    assert is_key_lost(key.upper(), RESTORE) is is_lost


@given(
    st.text(alphabet=[chr(code) for code in range(33, 127)], min_size=1, max_size=255) | st.uuids().map(str)
)
def test_no_key_is_refused_by_a_fault(key: str) -> None:
    assert is_key(key)
    made_at = key_made_at(key)
    assert made_at is None or UUID(key).version == 7


@pytest.mark.parametrize("key", [None, "", "x" * 36, "{" + "0" * 34 + "}", str(UUID(int=7))])
def test_other_keys_state_no_time(key: str | None) -> None:
    assert key_made_at(key) is None
    assert not is_key_lost(key, RESTORE)


def test_a_restore_is_fenced_until_it_is_released() -> None:
    assert RESTORE.is_fenced
    assert not Restore(1, AT, AT, AT).is_fenced
