"""The first recipe of docs/architecture.md, followed on a copy of the tree: a flag of a meeting."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"
LIKE, FLAG = "mic_off", "starts_quietly"

FIELD = re.compile(rf"    {LIKE}: Annotated\[.*?\] = (?:\(\s*)?False\s*\)?\n", re.DOTALL)
LINE = re.compile(rf"^.*\b{LIKE}\b.*\n", re.MULTILINE)


def repeated(pattern: re.Pattern[str]) -> Callable[[str], str]:
    """An edit: what names the flag, once more for the new one."""

    def edit(text: str) -> str:
        edited = pattern.sub(lambda found: found[0] + found[0].replace(LIKE, FLAG), text)
        assert edited != text
        return edited

    return edit


def with_last_column(schema: str) -> str:
    """An edit: the column where `ADD COLUMN` leaves it."""
    edited = re.sub(
        r"(CREATE TABLE meetings \(.*?)\n\);", rf"\1,\n    {FLAG} boolean NOT NULL DEFAULT false\n);", schema,
        count=1, flags=re.DOTALL,
    )  # fmt: skip
    assert edited != schema
    return edited


EDITS: Mapping[str, Callable[[str], str]] = {
    "domain/meetings/meetings.py": repeated(FIELD),
    "adapters/postgres/schema.sql": with_last_column,
    "client/operations.py": repeated(LINE),
}
MIGRATION = f"ALTER TABLE meetings ADD COLUMN {FLAG} boolean NOT NULL DEFAULT false;\n"

CHECK = f"""
import asyncio, inspect, json
from datetime import date
from architecture import running
from meetcore.adapters.api.operations import OPERATIONS
from meetcore.adapters.api.operations.meetings import create_meeting
from meetcore.adapters.http.openapi import openapi_document
from meetcore.adapters.mcp.tools import tools_of
from meetcore.adapters.postgres.meetings.rows import MEETING
from meetcore.client.operations import CreditOperations, MeetingOperations

wanted = {{"title": "A", "date": "2026-12-02", "start_time": "09:00", "pricing_tier_id": "standard-100"}}

async def check():
    async with running() as one:
        refused = await one.http.post("/meetings", json=wanted | {{"{FLAG}": "yes"}})
        assert list(refused.json()["error"]["details"]["fields"]) == ["{FLAG}"], refused.text
        made = await one.http.post("/meetings", json=wanted | {{"{FLAG}": True}})
        assert made.status_code == 201, made.text
        (stored,) = one.state.committed.meetings.values()
        assert stored.meeting.options.{FLAG} and not stored.meeting.options.{LIKE}
        priced = {{"type": "meeting", "pricing_tier_id": "standard-100", "{FLAG}": True}}
        assert (await one.http.post("/credits/estimate", json=priced)).status_code == 200

asyncio.run(check())
document = json.loads(openapi_document(OPERATIONS, "https://meet.test", date(2026, 12, 1)))
assert "{FLAG}" in document["components"]["schemas"]["CreateMeetingBody"]["properties"]
(tool,) = tools_of([create_meeting])
assert "{FLAG}" in tool.input_schema["properties"]
assert "{FLAG}" in MEETING.names
for described in (MeetingOperations.create, CreditOperations.estimate_meeting):
    assert "{FLAG}" in inspect.signature(described._describe).parameters
"""


def test_a_flag_is_added_by_the_recipe(tmp_path: Path) -> None:
    package = tmp_path / "meetcore"
    shutil.copytree(ROOT / "src/meetcore", package, ignore=shutil.ignore_patterns("__pycache__"))
    for file, edit in EDITS.items():
        path = package / file
        path.write_text(edit(path.read_text("utf-8")), "utf-8")
    (package / "adapters/postgres/migrations/9999_flag.sql").write_text(MIGRATION, "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", CHECK], capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{SCRIPTS}", "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_recipe_names_the_files_that_were_edited() -> None:
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    recipe = page.partition("<!-- generated: recipe-flag -->")[2].partition("<!-- end of")[0]
    assert set(EDITS) <= set(re.findall(r"`([\w/.]+)`", recipe))
