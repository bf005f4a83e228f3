"""The wheel with attrs alone: the rules work, typed, and other imports name the missing extra.

Without network: the wheel is built with the installed packages, and attrs is copied.
"""

from __future__ import annotations

import json
import re
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from meetcore.adapters.http.docs import PAGES
from meetcore.adapters.settings.plugins import GROUPS
from tests.support.wheels import Clean, check_types, installed, wheel, with_what_it_needs
from tests.unit.test_docs import Block, python_blocks

__all__ = ["wheel"]

ROOT = Path(__file__).resolve().parents[2]

# Imports every module that the domain names and looks up every name that a module does; prints what it found,
# and which third-party packages were loaded on the way.
SURVEY = """
import json, pkgutil, sys
from importlib import import_module
import meetcore.domain
found = {}
for info in pkgutil.walk_packages(meetcore.domain.__path__, "meetcore.domain."):
    module = import_module(info.name)
    if info.ispkg:
        continue
    found[info.name] = [name for name in vars(module) if not name.startswith("_")]
    exec("from " + info.name + " import *", {})
files = {name.partition(".")[0]: str(getattr(each, "__file__", "")) for name, each in sys.modules.items()}
places = [name for name, file in files.items() if "site-packages" in file]
print(json.dumps({"found": found, "third_party": sorted(places)}))
"""

# Looks up every public name of the client, makes both clients, and prints what was loaded on the way.
CLIENT_SURVEY = """
import json, sys
from meetcore import client
from meetcore.client import *
assert all(hasattr(client, name) for name in client.__all__)
with Client("https://meet.example.com", "key") as one:
    assert repr(one) == "Client('https://meet.example.com')"
AsyncClient("https://meet.example.com", "key")
rooms = {name.split(".")[1] for name in sys.modules if name.startswith("meetcore.")}
files = {name.partition(".")[0]: str(getattr(each, "__file__", "")) for name, each in sys.modules.items()}
places = [name for name, file in files.items() if "site-packages" in file]
print(json.dumps({"meetcore": sorted(rooms), "third_party": sorted(places)}))
"""


@pytest.fixture(scope="session")
def clean(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Clean:
    return installed(wheel, tmp_path_factory.mktemp("clean") / "venv", {"attrs"})


@pytest.fixture(scope="session")
def customers(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Clean:
    """Make the environment of `pip install 'meetcore[client]'` from the installed packages."""
    (distribution,) = metadata.distributions(path=[str(wheel)])
    wanted = {"attrs"} | {
        name
        for each in map(Requirement, distribution.requires or ())
        if each.marker is not None and each.marker.evaluate({"extra": "client"})
        for name in with_what_it_needs(each.name)
    }
    return installed(wheel, tmp_path_factory.mktemp("customers") / "venv", wanted)


def test_the_environment_has_attrs_and_nothing_else(clean: Clean) -> None:
    listing = "import importlib.metadata as m; print(sorted(d.name.lower() for d in m.distributions()))"
    assert clean.run("python", "-I", "-c", listing).stdout.strip() == "['attrs', 'meetcore']"


def test_the_wheel_requires_attrs_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata_text = archive.read(name).decode()
    needed = re.findall(
        r"^Requires-Dist: ([\w.-]+)[^;\n]*$", metadata_text, re.MULTILINE
    )  # without those of extras
    assert needed == ["attrs"]


def test_the_wheel_registers_the_adapters_of_the_checkout(wheel: Path) -> None:
    (distribution,) = metadata.distributions(path=[str(wheel)])
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]
    assert set(groups) == {group.name for group in GROUPS}
    for group, named in groups.items():
        assert {each.name: each.value for each in distribution.entry_points.select(group=group)} == named


def test_what_only_notes_need_comes_with_no_other_extra_of_the_service(wheel: Path) -> None:
    (distribution,) = metadata.distributions(path=[str(wheel)])
    named = {
        extra: required(distribution, extra) for extra in distribution.metadata.get_all("Provides-Extra", [])
    }
    assert named["notes"] == {"av", "holidays"}
    assert {extra for extra, names in named.items() if "av" in names} == {"notes", "speech", "all"}
    of_the_service = (names for extra, names in named.items() if extra not in ("all", "testing"))
    assert named["all"] == set().union(*of_the_service)


def required(distribution: metadata.Distribution, extra: str) -> set[str]:
    needed = map(Requirement, distribution.requires or ())
    return {
        each.name for each in needed if each.marker is not None and each.marker.evaluate({"extra": extra})
    }


def test_the_wheel_contains_the_whole_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    package = {name for name in names if name.startswith("meetcore/")}
    assert {name.partition("/")[0] for name in names - package} == {
        wheel.name.rpartition("-py3")[0] + ".dist-info"
    }
    wanted = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "meetcore").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    served = {f"meetcore/adapters/http/pages/{name}.md" for name in PAGES}
    assert package == wanted | served
    assert "meetcore/py.typed" in package
    assert "meetcore/adapters/postgres/migrations/0001_initial.sql" in package


def test_every_public_name_exists_and_loads_attrs_alone(clean: Clean) -> None:
    survey = json.loads(clean.run("python", "-I", "-c", SURVEY).stdout)
    assert survey["third_party"] == ["attr", "attrs", "meetcore"]
    source = ROOT / "src"
    modules = {
        ".".join(path.relative_to(source).with_suffix("").parts)
        for path in (source / "meetcore" / "domain").rglob("*.py")
        if path.stem != "__init__"
    }
    assert set(survey["found"]) == modules
    assert all(survey["found"].values())


@pytest.mark.parametrize(
    "block",
    [each for each in python_blocks() if re.match(r"(README|embedding)\.md", each.name)],
    ids=lambda block: block.name,
)
def test_the_documented_python_runs_from_the_wheel(clean: Clean, block: Block) -> None:
    clean.run("python", "-I", "-", stdin="\n".join(code for _, code in block.parts))


def test_the_script_names_the_package_to_install(clean: Clean) -> None:
    done = clean.run("meetcore", "--help", code=2)
    assert done.stdout == ""
    assert done.stderr == "meetcore: cyclopts is not installed; this needs: pip install 'meetcore[client]'\n"
    of_operators = clean.run("meetcore", "serve", code=2)
    assert of_operators.stderr.endswith("pip install 'meetcore[server]'\n")


def test_the_application_names_what_to_install(clean: Clean) -> None:
    done = clean.run("python", "-I", "-c", "import meetcore.app", code=1)
    assert re.fullmatch(
        r"ImportError: meetcore.app needs \w+: pip install 'meetcore\[server\]'", done.stderr.splitlines()[-1]
    )


@pytest.mark.parametrize("module", ["meetcore.adapters.http.api_app", "meetcore.adapters.postgres.store"])
def test_the_service_names_the_missing_package(clean: Clean, module: str) -> None:
    done = clean.run("python", "-I", "-c", f"import {module}", code=1)
    missing = re.fullmatch(r"ModuleNotFoundError: No module named '(\w+)'", done.stderr.splitlines()[-1])
    assert missing is not None
    assert missing[1] not in {"meetcore", "attrs"}


def test_the_kit_names_the_package_to_install(clean: Clean) -> None:
    done = clean.run("python", "-I", "-c", "import meetcore.testing", code=1)
    assert "pip install 'meetcore[testing]'" in done.stderr.splitlines()[-1]


def test_the_client_names_the_package_to_install(clean: Clean) -> None:
    done = clean.run("python", "-I", "-c", "import meetcore.client", code=1)
    assert "pip install 'meetcore[client]'" in done.stderr.splitlines()[-1]


def test_the_client_needs_no_package_of_the_service(customers: Clean) -> None:
    survey = json.loads(customers.run("python", "-I", "-c", CLIENT_SURVEY).stdout)
    assert set(survey["meetcore"]) == {"client", "domain"}, "the rooms that were loaded"
    loaded = set(survey["third_party"])
    assert loaded >= {"attr", "httpx"}
    # typing_extensions is anyio's on a Python before 3.13.
    assert loaded <= {
        "anyio",
        "attr",
        "attrs",
        "certifi",
        "h11",
        "httpcore",
        "httpx",
        "idna",
        "meetcore",
        "typing_extensions",
    }


def test_a_customer_s_command_runs_with_the_packages_of_the_client(customers: Clean) -> None:
    assert "For customers" in customers.run("meetcore", "--help").stdout
    refused = customers.run("meetcore", "api", "GET", "/me", code=3)
    assert "MEETCORE_API_KEY" in refused.stderr
    of_operators = customers.run("meetcore", "host", "list", code=2)
    assert of_operators.stderr.endswith("is not installed; this needs: pip install 'meetcore[server]'\n")


def test_the_wheel_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size <= 2_500_000


def test_the_client_s_callers_are_checked_against_the_installed_types(
    customers: Clean, tmp_path: Path
) -> None:
    check_types(customers, [ROOT / "tests" / "types" / "client_consumer.py"], tmp_path)


def test_callers_are_checked_against_the_installed_types(clean: Clean, tmp_path: Path) -> None:
    # By the interpreter of the clean environment, so that the types are those of the wheel (PEP 561).
    files = [ROOT / "tests" / "types" / name for name in ("consumer.py", "misuse.py")]
    pages = ("README.md", "embedding.md")
    for number, block in enumerate(each for each in python_blocks() if each.name.startswith(pages)):
        files.append(tmp_path / f"example_{number}.py")
        files[-1].write_text("\n".join(code for _, code in block.parts), "utf-8")
    assert len(files) > 4
    check_types(clean, files, tmp_path)
