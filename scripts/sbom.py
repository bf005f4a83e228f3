"""`make sbom`: the bill of materials of a lock as CycloneDX 1.6, and the licences of its packages as a page.

Versions, hashes, markers and who needs what come from the lock, without what is for other systems than
Linux; licences from the metadata of the packages that are installed here. A package whose licence is not
known, or is not among those that we ship, is an error. What is written depends on the lock and the packages
alone: no time, no address, no name of a machine. Libraries that a wheel carries in itself have licences of
their own, which no metadata names: the page says of which packages that is known.

    python scripts/sbom.py [--lock requirements/image.txt] [--into build]
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from attrs import frozen
from packaging.markers import Marker

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "image.txt"

SHIPPED = frozenset(
    {
        "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "HPND", "ISC", "LGPL-3.0-only",
        "LGPL-3.0-or-later", "MIT", "MIT-0", "MIT-CMU", "MPL-2.0", "OFL-1.1", "PSF-2.0", "Zlib",
    }
)  # fmt: skip
"""Licences, by their SPDX identifiers, whose terms a service and its image keep as they are."""

# What packages write where there is no expression.
WORDS = {
    "3-clause bsd license": "BSD-3-Clause",
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd": "BSD-3-Clause",
    "bsd license": "BSD-3-Clause",
    "bsd 2-clause license": "BSD-2-Clause",
    "gnu lesser general public license v3 or later (lgplv3+)": "LGPL-3.0-or-later",
    "isc license": "ISC",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "psfl": "PSF-2.0",
    "python software foundation license": "PSF-2.0",
}

# Packages for other versions of Python than this one, which are not installed here.
ELSEWHERE = {"async-timeout": "Apache-2.0"}
PYTHONS = ("3.11.0", "3.12.0", "3.13.0", "3.14.0")


_CARRIED = (
    "As the packages declare them. Libraries that a wheel carries in itself have licences of their own: `av` "
    "has ffmpeg (LGPL) and x264 and x265 (GPL-2.0-or-later), `psycopg-binary` has libpq and OpenSSL. Who "
    "passes on an image that has `av` in it keeps to those terms, too."
)


class LicenceUnknown(Exception):
    """A package's licence is not known, or not among those that are shipped."""


@frozen
class Package:
    """A package as it is locked. `needed_by` are the packages that require it."""

    name: str
    version: str
    marker: str
    sha256: tuple[str, ...]
    needed_by: tuple[str, ...]

    @property
    def purl(self) -> str:
        """Its package URL, which names the kind of its registry and no address."""
        return f"pkg:pypi/{self.name}@{self.version}"


def locked(text: str) -> Iterator[Package]:
    """The packages of a lock, in its order."""
    for block in re.split(r"\n(?=[A-Za-z0-9])", "\n" + text):
        head = re.match(
            r"([\w.-]+?)(?:\[[\w,-]+\])?==([^\s;]+)(?: ; ([^\\\n]+?))? *\\?\n", block.lstrip("\n")
        )
        if head is None:
            continue
        _, _, comment = block.partition("# via")
        parents = (line.strip(" #").partition(" ")[0].partition("[")[0] for line in comment.splitlines())
        hashes = re.findall(r"sha256:([0-9a-f]{64})", block)
        needed_by = {_canonical(each) for each in parents if re.fullmatch(r"[A-Za-z0-9][\w.-]*", each)}
        marker = (head[3] or "").strip()
        if not marker or any(_is_for(marker, version) for version in PYTHONS):
            yield Package(_canonical(head[1]), head[2], marker, tuple(hashes), tuple(sorted(needed_by)))


def _is_for(marker: str, version: str) -> bool:
    """Whether a package is installed on Linux with this Python."""
    python = {"python_version": version.rpartition(".")[0], "python_full_version": version}
    system = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
    return Marker(marker).evaluate(python | system)


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def licence_of(package: Package) -> str:
    """The licence of a package as an SPDX expression.

    Raises:
        LicenceUnknown: it has none that we know, or ship.
    """
    try:
        installed = metadata.distribution(package.name).metadata
    except metadata.PackageNotFoundError:
        found = ELSEWHERE.get(package.name, "")
    else:
        found = _declared(installed)
    if not found or not set(re.findall(r"[A-Za-z0-9][\w.+-]*", found)) - {"AND", "OR"} <= SHIPPED:
        raise LicenceUnknown(f"{package.name} {package.version}: {found or 'no licence that is known'}")
    return found


def _declared(fields: Any) -> str:
    if expression := fields.get("License-Expression"):
        return str(expression)
    classifiers = [
        each.split(" :: ")[-1] for each in fields.get_all("Classifier", []) if each.startswith("License")
    ]
    for text in (str(fields.get("License") or "").partition("\n")[0].strip(), *reversed(classifiers)):
        if found := WORDS.get(
            text.lower(), text if text in SHIPPED or re.search(r" (AND|OR) ", text) else ""
        ):
            return found
    return ""


def bill(packages: Sequence[Package], licences: dict[str, str]) -> dict[str, Any]:
    """The bill of materials as CycloneDX has it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    root = f"pkg:pypi/{project['name']}@{project['version']}"
    by_name = {package.name: package for package in packages}
    needs: dict[str, list[str]] = {root: [], **{package.purl: [] for package in packages}}
    for package in packages:
        for parent in package.needed_by:
            needs[by_name[parent].purl if parent in by_name else root].append(package.purl)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, ' '.join([root, *needs]))}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application", "bom-ref": root, "name": project["name"],
                "version": project["version"], "purl": root, "licenses": [{"expression": project["license"]}],
            }
        },
        "components": [_component(package, licences[package.name]) for package in packages],
        "dependencies": [{"ref": ref, "dependsOn": sorted(set(refs))} for ref, refs in needs.items()],
    }  # fmt: skip


def _component(package: Package, licence: str) -> dict[str, Any]:
    # Each hash is that of one file of the release: which of them is installed depends on the machine.
    properties = [{"name": "meetcore:lock:sha256", "value": each} for each in package.sha256]
    if package.marker:
        properties.insert(0, {"name": "meetcore:lock:marker", "value": package.marker})
    return {
        "type": "library", "bom-ref": package.purl, "name": package.name, "version": package.version,
        "purl": package.purl, "licenses": [{"expression": licence}], "properties": properties,
    }  # fmt: skip


def page(packages: Sequence[Package], licences: dict[str, str]) -> str:
    """The licences as a table in Markdown."""
    rows = "".join(f"| {each.name} | {each.version} | {licences[each.name]} |\n" for each in packages)
    return f"# Licences\n\n{_CARRIED}\n\n| package | version | licence |\n|---|---|---|\n{rows}"


def main(arguments: list[str]) -> int:
    """Write both; 1 where a licence is not known."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--lock", type=Path, default=LOCK)
    parser.add_argument("--into", type=Path, default=ROOT / "build")
    options = parser.parse_args(arguments)
    packages = list(locked(options.lock.read_text("utf-8")))
    licences, problems = {}, []
    for package in packages:
        try:
            licences[package.name] = licence_of(package)
        except LicenceUnknown as error:
            problems.append(f"sbom: {error}")
    if problems:
        print(*problems, sep="\n", file=sys.stderr)
        return 1
    options.into.mkdir(parents=True, exist_ok=True)
    text = json.dumps(bill(packages, licences), indent=2, ensure_ascii=False)
    (options.into / "sbom.cdx.json").write_text(text + "\n", "utf-8")
    (options.into / "licences.md").write_text(page(packages, licences), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
