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


EDITS: Mapping[str, Callable[[str], str]] = {
    "domain/meetings/meetings.py": repeated(FIELD),
    "adapters/postgres/migrations/0001_initial.sql": repeated(LINE),
    "client/operations.py": repeated(LINE),
}

CHECK = f"""
import asyncio, json, sys
sys.modules["rfc3987_syntax"] = None  # as tests/conftest.py, of which this is no part
from datetime import date
import httpx
from meetcore.adapters.api.operations import OPERATIONS
from meetcore.adapters.api.operations.meetings import create_meeting
from meetcore.adapters.http.openapi import openapi_document
from meetcore.adapters.mcp.tools import tools_of
from meetcore.adapters.postgres.migrate import migrate
from meetcore.app import Service
from meetcore.client.operations import CreditOperations, MeetingOperations
from meetcore.composition.infrastructure import open_application
from tests.support.api_harness import ALL_SCOPES, BASE_URL, Slots, pool_of, settings_for, started

url = sys.argv[1]
migrate(url)
settings, start = settings_for(url), Slots().take()
wanted = {{
    "title": "A", "date": f"{{start:%Y-%m-%d}}", "start_time": f"{{start:%H:%M}}",
    "pricing_tier_id": "standard-100",
}}

async def check():
    service = Service(settings)
    async with open_application(settings) as application, started(service):
        account = await application.administration.create_account("a@example.test", "A", 100)
        key = await application.administration.keys.create(account.id, ALL_SCOPES)
        await application.administration.hosts.add("host", 100)
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(service), base_url=f"{{BASE_URL}}/api/v1",
            headers={{"Authorization": f"Bearer {{key.text}}"}},
        ) as http:
            refused = await http.post("/meetings", json=wanted | {{"{FLAG}": "yes"}})
            assert list(refused.json()["error"]["details"]["fields"]) == ["{FLAG}"], refused.text
            made = await http.post("/meetings", json=wanted | {{"{FLAG}": True}})
            assert made.status_code == 201, made.text
            priced = {{"type": "meeting", "pricing_tier_id": "standard-100", "{FLAG}": True}}
            assert (await http.post("/credits/estimate", json=priced)).status_code == 200
    async with pool_of(settings) as pool:
        (row,) = await pool.read("SELECT {FLAG}, {LIKE} FROM meetings", {{}})
        assert row == {{"{FLAG}": True, "{LIKE}": False}}

asyncio.run(check())
document = json.loads(openapi_document(OPERATIONS, "https://meet.test", date(2026, 12, 1)))
assert "{FLAG}" in document["components"]["schemas"]["CreateMeetingBody"]["properties"]
(tool,) = tools_of([create_meeting])
assert "{FLAG}" in tool.input_schema["properties"]
flagged = {{"pricing_tier_id": "t", "{FLAG}": True}}
for call in (
    MeetingOperations.create._describe(None, title="A", date="2026-12-01", start_time="09:00", **flagged),
    CreditOperations.estimate_meeting._describe(None, **flagged),
):
    assert json.loads(call.body)["{FLAG}"] is True
"""


def test_a_flag_is_added_by_the_recipe(tmp_path: Path, empty_database_url: str) -> None:
    package = tmp_path / "meetcore"
    shutil.copytree(ROOT / "src/meetcore", package)  # with what was compiled: times are kept
    for file, edit in EDITS.items():
        path = package / file
        path.write_text(edit(path.read_text("utf-8")), "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", CHECK, empty_database_url], capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_recipe_names_the_files_that_were_edited() -> None:
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    recipe = page.partition("## A flag of a meeting")[2].partition("\n## ")[0]
    assert set(EDITS) <= set(re.findall(r"`([\w/.]+)`", recipe))
