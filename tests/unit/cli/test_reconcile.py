"""The findings of `reconcile` that an operator names."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from meetcore.cli.inputs import InputRefused
from meetcore.cli.reconcile import Wanted, _reconcile

LOST = SimpleNamespace(
    meeting_id=UUID(int=7), name="77", found=SimpleNamespace(title="Rapat", start_at=None, duration=60)
)


async def test_a_meeting_to_adopt_is_not_removed_with_the_others() -> None:
    async def survey(_: datetime) -> Any:
        return SimpleNamespace(lost=[LOST], gone=[])

    wanted = Wanted(datetime.now(UTC), ["77"], UUID(int=1), "standard-100", ["lost"])
    use_case: Any = SimpleNamespace(survey=survey)  # nothing can be changed by it
    with pytest.raises(InputRefused, match=f"--adopt and --remove both name {LOST.meeting_id}"):
        await _reconcile(use_case, wanted)
