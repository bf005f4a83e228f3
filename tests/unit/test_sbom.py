"""The bill of materials: every package of the lock, with a licence that is shipped, and no address."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts"))

import sbom  # noqa: E402  # scripts are no package


@pytest.mark.parametrize("lock", ["image.txt", "run.txt"])
def test_every_package_of_a_lock_is_in_it_with_a_licence(lock: str, tmp_path: Path) -> None:
    file = ROOT / "requirements" / lock
    assert sbom.main(["--lock", str(file), "--into", str(tmp_path)]) == 0
    text = (tmp_path / "sbom.cdx.json").read_text("utf-8")
    bill = json.loads(text)
    pins = dict(re.findall(r"^([\w.-]+?)(?:\[[\w,-]+\])?==([^\s;]+)", file.read_text("utf-8"), re.MULTILINE))
    found = {each["name"]: each["version"] for each in bill["components"]}
    assert found.items() <= pins.items()
    left_out = {name for name in pins if name not in found}
    others = re.findall(
        r"^([\w.-]+)==\S+ ; .*(?:emscripten|win32|Windows)", file.read_text("utf-8"), re.MULTILINE
    )
    assert left_out <= set(others), "what is for other systems"
    assert all(each["licenses"][0]["expression"] for each in bill["components"])
    assert all(
        any(item["name"].endswith("sha256") for item in each["properties"]) for each in bill["components"]
    )
    refs = {each["bom-ref"] for each in (*bill["components"], bill["metadata"]["component"])}
    assert {each["ref"] for each in bill["dependencies"]} == refs
    assert {ref for each in bill["dependencies"] for ref in each["dependsOn"]} < refs
    page = (tmp_path / "licences.md").read_text("utf-8")
    assert page.count("\n| ") - 1 == len(found)
    for written in (text, page):
        assert "://" not in written
        assert str(ROOT) not in written


def test_it_is_the_same_each_time(tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        assert sbom.main(["--into", str(tmp_path / name)]) == 0
        made.append((tmp_path / name / "sbom.cdx.json").read_bytes())
    assert made[0] == made[1]


def test_who_needs_what_is_as_the_lock_says() -> None:
    packages = {each.name: each for each in sbom.locked(sbom.LOCK.read_text("utf-8"))}
    assert packages["httpcore"].needed_by == ("httpx",)
    assert "meetcore" in packages["httpx"].needed_by
    assert len(packages["httpcore"].sha256) == 2


LOCKED = "nowhere-at-all==1.0 \\\n    --hash=sha256:" + "0" * 64 + "\n    # via meetcore (pyproject.toml)\n"


def test_a_package_without_a_known_licence_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lock.txt").write_text(LOCKED)
    assert sbom.main(["--lock", str(tmp_path / "lock.txt"), "--into", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err == "sbom: nowhere-at-all 1.0: no licence that is known\n"
    assert not (tmp_path / "out").exists()


def test_a_licence_that_is_not_shipped_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    (package,) = sbom.locked(LOCKED)
    for licence in ("AGPL-3.0-only", "MIT AND SSPL-1.0"):
        monkeypatch.setitem(sbom.ELSEWHERE, package.name, licence)
        with pytest.raises(sbom.LicenceUnknown, match=licence):
            sbom.licence_of(package)
