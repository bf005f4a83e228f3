"""One version in every file, and migrations that stay as they were released."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from scripts import check_release
from scripts.check_release import CHECKSUMS, MIGRATIONS, VERSIONED, ReleaseRefused, wanted

FIRST = MIGRATIONS / "0001_initial.sql"
UNRELEASED = "# Changelog\n\n## 1.2.3, unreleased: x\n"
RELEASED = UNRELEASED.replace("unreleased", "2027-01-31")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The files that a release writes, of a version that is not released."""
    for file in (*VERSIONED, str(FIRST)):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(check_release.ROOT / file, tmp_path / file)
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text(UNRELEASED)
    write(tmp_path)
    return tmp_path


def write(root: Path) -> None:
    for file, text in wanted(root).items():
        (root / file).write_text(text)


def test_this_tree_is_as_it_should_be() -> None:
    assert wanted() == {}


def test_each_file_gets_the_version_of_the_project(tree: Path) -> None:
    assert [(tree / file).read_text().count("1.2.3") for file in VERSIONED] == [1, 2, 1, 1]
    (tree / "pyproject.toml").write_text('[project]\nversion = "1.3.0"\n')
    with pytest.raises(ReleaseRefused, match=r"not that of 1\.3\.0"):
        wanted(tree)
    (tree / "CHANGELOG.md").write_text(UNRELEASED.replace("1.2.3", "1.3.0") + RELEASED)
    assert wanted(tree).keys() == VERSIONED.keys()


def test_a_migration_is_written_down_when_the_entry_has_a_date_and_is_then_fixed(tree: Path) -> None:
    assert not (tree / CHECKSUMS).exists()
    (tree / FIRST).write_text("SELECT 1;\n")  # edited in place until then
    assert wanted(tree) == {}
    (tree / "CHANGELOG.md").write_text(RELEASED)
    line = f"{hashlib.sha256(b'SELECT 1;' + bytes([10])).hexdigest()}  {FIRST.name}\n"
    assert wanted(tree) == {str(CHECKSUMS): line}
    write(tree)
    assert wanted(tree) == {}

    (tree / "CHANGELOG.md").write_text(UNRELEASED)
    second = FIRST.with_name("0002_more.sql")
    (tree / second).write_text("SELECT 2;\n")
    assert wanted(tree) == {}
    (tree / "CHANGELOG.md").write_text(RELEASED)
    assert wanted(tree)[str(CHECKSUMS)].startswith(line)
    for change in ("SELECT 3;\n", None):
        (tree / FIRST).write_text(change) if change else (tree / FIRST).unlink()
        with pytest.raises(ReleaseRefused, match=r"0001_initial\.sql was released"):
            wanted(tree)
