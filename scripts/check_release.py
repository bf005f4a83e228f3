"""A release in its files: the version of pyproject.toml in each, and migrations that stay as released.

Without arguments it writes the version into every file that names it and, once CHANGELOG.md begins with
an entry that has a date, the checksums of the migrations that have none. With `--check` it writes nothing
and exits 1 where something is missing. A migration that was changed since fails both ways.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MIGRATIONS = Path("src/meetcore/adapters/postgres/migrations")
CHECKSUMS = MIGRATIONS / "released.sha256"
"""As `sha256sum` writes and checks them."""

NPM = re.compile(r'(?<="name": "@meetcore/client",\n)(\s+"version": ")[^"]+')
IMAGE = re.compile(r"(newName: registry\.example\.com/meetcore, newTag: )[^}]+")
VERSIONED = {
    "packaging/typescript/package.json": NPM,
    "packaging/typescript/package-lock.json": NPM,
    "deploy/kubernetes/kustomization.yaml": IMAGE,
    "deploy/kubernetes/migrate/kustomization.yaml": IMAGE,
}
ENTRY = re.compile(r"^## (?P<version>\S+), (?:(?P<date>\d{4}-\d\d-\d\d)|unreleased)\b", re.MULTILINE)


class ReleaseRefused(Exception):
    """The files contradict each other, and only a person can say which is right."""


def wanted(root: Path = ROOT) -> dict[str, str]:
    """Return the files that say something else than they should, with what they should say."""
    version = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    entries = list(ENTRY.finditer((root / "CHANGELOG.md").read_text("utf-8")))
    if not entries or entries[0]["version"] != version:
        raise ReleaseRefused(
            f"the first entry of CHANGELOG.md is not that of {version}, as pyproject.toml says"
        )
    texts = {file: pattern.sub(rf"\g<1>{version}", _text(root, file)) for file, pattern in VERSIONED.items()}
    texts[str(CHECKSUMS)] = _checksums(root, is_release=entries[0]["date"] is not None)
    return {file: text for file, text in texts.items() if text != _text(root, file)}


def _checksums(root: Path, *, is_release: bool) -> str:
    kept = _text(root, str(CHECKSUMS))
    written = {name: digest for digest, name in (line.split() for line in kept.splitlines())}
    found = {file.name: _digest(file) for file in sorted((root / MIGRATIONS).glob("*.sql"))}
    if changed := [name for name, digest in written.items() if found.get(name) != digest]:
        raise ReleaseRefused(
            f"{', '.join(changed)} was released, and is not what was released: make a new step beside it"
        )
    new = found.keys() - written.keys() if is_release else ()
    return kept + "".join(f"{found[name]}  {name}\n" for name in sorted(new))


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _text(root: Path, file: str) -> str:
    return (root / file).read_text("utf-8") if (root / file).exists() else ""


def main(arguments: list[str]) -> int:
    """Write what is missing, or with `--check` say what it is."""
    try:
        missing = wanted()
    except ReleaseRefused as refusal:
        print(f"check_release: {refusal}", file=sys.stderr)
        return 1
    if "--check" in arguments:
        for file in missing:
            print(f"check_release: {file} is stale: run python scripts/check_release.py", file=sys.stderr)
        return 1 if missing else 0
    for file, text in missing.items():
        (ROOT / file).write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
