"""A client generated from the OpenAPI document creates a meeting (rule 9/3)."""

from __future__ import annotations

import importlib
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.e2e.customers import enrol
from tests.support.program import START_S, Site

NAME = "meetcore_generated"


def generate(url: str, place: Path) -> None:
    document, config = place / "openapi.json", place / "config.yml"
    document.write_bytes(httpx.get(f"{url}/api/v1/openapi.json", trust_env=False, timeout=20).content)
    config.write_text(f"package_name_override: {NAME}\npost_hooks: []\n")
    command = [
        sys.executable, "-m", "openapi_python_client", "generate", "--path", str(document), "--meta", "none",
        "--config", str(config), "--output-path", str(place / NAME), "--fail-on-warning",
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=place, timeout=5 * START_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.spec("9/3", "4.1/4")
def test_a_generated_client_creates_a_meeting(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, key = enrol(site)
    with site.serve() as api:
        generate(api.url, tmp_path)
        monkeypatch.syspath_prepend(tmp_path)

        def part(name: str) -> Any:
            return importlib.import_module(f"{NAME}.{name}")

        opened = part("client").AuthenticatedClient(
            base_url=f"{api.url}/api/v1", token=key, httpx_args={"trust_env": False}
        )
        with opened as client:
            tier = part("api.pricing_tiers.list_pricing_tiers").sync(client=client).data[0]
            body_of = part("models.create_meeting_body").CreateMeetingBody
            day = (datetime.now(UTC) + timedelta(days=9)).date()
            wanted = body_of(title="Rapat", date=day, start_time="09:00", pricing_tier_id=tier.id)
            create = part("api.meetings.create_meeting").sync
            made = create(client=client, body=wanted, idempotency_key=str(uuid4()))
            assert made.status == "scheduled"
            assert made.credits_deducted == tier.credits_
            assert made.join_url

            wanted.pricing_tier_id = "no-such-tier"
            refused = create(client=client, body=wanted)
            assert refused.error.code == "not_found"
            assert refused.error.details.pricing_tier_id == "no-such-tier"
