"""The distribution `meetcore-client`: the client and the rules, with httpx and attrs."""

from __future__ import annotations

import json
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.client.samples import meeting
from tests.client.scripted_server import ScriptedServer, answer
from tests.support.wheels import Clean, built, check_types, installed, wheel, with_what_it_needs

__all__ = ["wheel"]

ROOT = Path(__file__).resolve().parents[2]
CONTENT = ("__init__.py", "py.typed", "client", "domain")
CALL = """
import json, sys
from meetcore.client import Client
with Client(sys.argv[1], "mk_live_" + "k" * 43) as client:
    meeting = client.meetings.get("01a1fde1-9c79-7f87-a745-919389bf998d")
files = {name.partition(".")[0]: str(getattr(each, "__file__", "")) for name, each in sys.modules.items()}
places = {name for name, file in files.items() if "site-packages" in file}
print(json.dumps({"title": meeting.title, "third_party": sorted(places)}))
"""
WHERE = "import meetcore.client, meetcore.domain; print(meetcore.__path__[0], meetcore.client.__file__)"


@pytest.fixture(scope="module")
def client_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT / "packaging" / "client", tmp_path_factory.mktemp("client"))


@pytest.fixture(scope="module")
def customers(client_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Clean:
    """Make the environment of `pip install meetcore-client` from the installed packages."""
    directory = tmp_path_factory.mktemp("customers") / "venv"
    return installed(client_wheel, directory, with_what_it_needs("httpx") | {"attrs"})


def test_it_requires_httpx_and_attrs_and_has_the_version_of_the_service(
    client_wheel: Path, wheel: Path
) -> None:
    (distribution,) = metadata.distributions(path=[str(client_wheel)])
    (service,) = metadata.distributions(path=[str(wheel)])
    assert {Requirement(each).name for each in distribution.requires or ()} == {"attrs", "httpx"}
    assert set(distribution.requires or ()) <= {
        each.partition(";")[0].strip() for each in service.requires or ()
    }
    assert (distribution.name, distribution.version) == ("meetcore-client", service.version)


def test_it_contains_the_client_and_the_rules_and_nothing_of_the_service(client_wheel: Path) -> None:
    source = ROOT / "src" / "meetcore"
    wanted = {
        f"meetcore_client_files/meetcore/{path.relative_to(source).as_posix()}"
        for top in CONTENT
        for path in (source / top, *(source / top).rglob("*"))
        if path.is_file() and path.suffix != ".pyc"
    }
    names = {name for name in names_in(client_wheel) if ".dist-info/" not in name}
    assert names == wanted | {"meetcore_client.pth", "meetcore_client_files/LICENSE"}


def test_a_call_from_an_environment_with_nothing_else(customers: Clean) -> None:
    with ScriptedServer(answer(200, meeting(title="From the client"))) as server:
        done = json.loads(customers.run("python", "-I", "-c", CALL, server.url).stdout)
    assert done["title"] == "From the client"
    assert {"attr", "httpx", "meetcore"} <= set(done["third_party"])
    assert set(done["third_party"]) <= {
        "anyio", "attr", "attrs", "certifi", "h11", "httpcore", "httpx", "idna", "meetcore",
        "typing_extensions",
    }  # fmt: skip


def test_its_callers_are_checked_against_the_installed_types(customers: Clean, tmp_path: Path) -> None:
    check_types(customers, [ROOT / "tests" / "types" / "client_consumer.py"], tmp_path)


@pytest.mark.parametrize("removed", ["meetcore", "meetcore-client"])
def test_beside_the_service_either_can_be_removed(
    client_wheel: Path, wheel: Path, tmp_path: Path, removed: str
) -> None:
    assert names_in(client_wheel).isdisjoint(names_in(wheel))
    both = installed(client_wheel, tmp_path / "venv", with_what_it_needs("httpx") | {"attrs"})
    both.install(wheel)
    package, module = both.run("python", "-I", "-c", WHERE).stdout.split()
    assert "meetcore_client_files" not in package + module, "the service's own, as a whole"
    both.uninstall(removed)
    package, module = both.run("python", "-I", "-c", WHERE).stdout.split()
    assert module.startswith(package)
    assert ("meetcore_client_files" in package) == (removed == "meetcore")


def names_in(archive: Path) -> set[str]:
    with zipfile.ZipFile(archive) as opened:
        return set(opened.namelist())
