"""The domain is the standard library and attrs, and nothing that touches the world.

Each module is imported by a fresh interpreter that sees `meetcore` and attrs and no other package: no
site-packages, no environment, no working directory.
"""

import subprocess
import sys
from pathlib import Path

import attrs
import pytest

import meetcore.domain

DOMAIN = Path(meetcore.domain.__file__).parent
MODULES = sorted(
    ".".join(("meetcore.domain", *path.relative_to(DOMAIN).with_suffix("").parts))
    for path in DOMAIN.rglob("*.py")
    if path.stem != "__init__"
)
OF_THE_WORLD = {
    "asyncio", "concurrent", "ftplib", "http", "logging", "multiprocessing", "random", "secrets", "select",
    "selectors", "smtplib", "socket", "socketserver", "sqlite3", "ssl", "subprocess", "tempfile",
}  # fmt: skip
ALLOWED = sys.stdlib_module_names | {"__main__", "meetcore", "attr", "attrs"}

PROGRAM = """
import sys
sys.path[:0] = sys.argv[1:2]
for name in sys.argv[2:]:
    __import__(name)
print(*sorted({name.partition(".")[0] for name in sys.modules}), sep="\\n")
"""
FORGET = """\
    for loaded in [each for each in sys.modules if each.partition(".")[0] == "meetcore"]:
        del sys.modules[loaded]
"""
EACH_FIRST = PROGRAM.replace("    __import__", f"{FORGET}    __import__")


@pytest.fixture(scope="module")
def fake_recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place to import from where only meetcore and attrs lie."""
    place = tmp_path_factory.mktemp("shelf")
    packages = Path(attrs.__file__).parent.parent
    for name, directory in (("meetcore", DOMAIN.parent.parent), ("attrs", packages), ("attr", packages)):
        (place / name).symlink_to(directory / name, target_is_directory=True)
    return place


def loaded_by(fake_recordings: Path, *modules: str, program: str = PROGRAM) -> set[str]:
    """The top-level names that a fresh, isolated interpreter has loaded after these imports."""
    command = [sys.executable, "-I", "-S", "-B", "-c", program, str(fake_recordings), *modules]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return set(ran.stdout.split())


def test_the_whole_domain_loads_only_the_standard_library_and_attrs(fake_recordings: Path) -> None:
    loaded = loaded_by(fake_recordings, "meetcore.domain", *MODULES)
    assert loaded - ALLOWED == set()
    assert loaded & OF_THE_WORLD == set()


def test_each_module_can_be_imported_first(fake_recordings: Path) -> None:
    assert "attrs" in loaded_by(fake_recordings, *MODULES, program=EACH_FIRST)


def test_the_package_itself_loads_no_rules(fake_recordings: Path) -> None:
    assert not {"attr", "attrs"} & loaded_by(fake_recordings, "meetcore.domain")


def test_the_check_detects_forbidden_modules(fake_recordings: Path) -> None:
    assert {"asyncio", "socket", "ssl"} <= loaded_by(fake_recordings, "asyncio", "ssl")
    with pytest.raises(AssertionError, match="No module named 'hypothesis'"):
        loaded_by(fake_recordings, "hypothesis")
