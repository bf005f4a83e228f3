"""A short run of schemathesis over every operation: no fault, no undocumented answer.

`make fuzz` is the long run. The seed is fixed for reproducible failures.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fuzz.running import fuzz, target
from tests.support import servers

SEED = 1
CASES = 8


@pytest.mark.spec("9/3", "7/envelope", "7/400")
async def test_each_answer_is_as_documented(postgres_server_url: str, tmp_path: Path) -> None:
    with servers.fresh_database(postgres_server_url) as url:
        async with target(url) as at:
            code, output = await fuzz(
                at, "--max-examples", str(CASES), "--phases", "examples,coverage,fuzzing,stateful",
                seed=SEED, place=tmp_path,
            )  # fmt: skip
    assert code == 0, output
    tested = re.search(r"Tested: (\d+)", output)
    selected = re.search(r"Selected: (\d+)/(\d+)", output)
    assert tested is not None
    assert selected is not None
    assert tested[1] == selected[1] == selected[2]
