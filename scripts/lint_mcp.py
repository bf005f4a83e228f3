"""`make lint-mcp`: the agent interface of a running service under the MCP Inspector's command line.

The service is `meetcore dev` in a directory of its own. The Inspector is of npm: its one version is installed
beside the virtual environment; where there is no npm, no network, or Node.js is too old, a message
is printed and nothing is checked. With `--strict` that is a failure.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
INSPECTOR = "2.12.0"
NODE = (22, 19)
START_S = 60.0
CALL_S = 60.0
PLAN: Sequence[tuple[str, Sequence[str], bool]] = (
    ("list_pricing_tiers", (), True),
    ("estimate_credits", ("type=meeting", "pricing_tier_id=standard-100"), True),
    ("create_meeting", ("title=Weekly",), False),
    ("list_meetings", ("limit=1",), True),
    ("get_meeting", ("id=none",), False),
)
"""What is called, with which arguments, and whether it does its work."""


def main(arguments: list[str]) -> int:
    """Check the tools and call some of them."""
    place = Path(os.environ.get("INSPECTOR_HOME", ROOT / ".venv" / "inspector")).resolve()
    program, problem = installed(place)
    if program is None:
        print(f"lint-mcp: the Inspector is left out: {problem}", file=sys.stderr)
        return 1 if "--strict" in arguments else 0
    with service() as (url, key):
        ask = [
            *program,
            "--cli",
            f"{url}/mcp",
            "--transport",
            "http",
            "--header",
            f"Authorization: Bearer {key}",
        ]
        faults = [*looked_at(ask)]
        for tool, given, does_its_work in PLAN:
            faults += called(ask, tool, given, does_its_work=does_its_work)
    for fault in faults:
        print(f"lint-mcp: {fault}", file=sys.stderr)
    return 1 if faults else 0


def looked_at(ask: list[str]) -> Iterator[str]:
    """Return the Inspector's findings on the list of tools."""
    done = run([*ask, "--method", "tools/list", "--strict"])
    if done.returncode != 0:
        yield f"tools/list ends with {done.returncode}: {done.stdout[-500:]}{done.stderr[-2000:]}"
    else:
        print(f"tools/list: {len(json.loads(done.stdout)['tools'])} tools, nothing against them")


def called(ask: list[str], tool: str, given: Sequence[str], *, does_its_work: bool) -> Iterator[str]:
    """Return the problems of a call."""
    tool_arguments = ["--tool-arg", *given] if given else []
    done = run([*ask, "--method", "tools/call", "--tool-name", tool, *tool_arguments])
    try:
        result: dict[str, Any] = json.loads(done.stdout)
        is_error = result["isError"]
    except (ValueError, KeyError):
        yield f"{tool} has no result: {done.stdout[-500:]}{done.stderr[-500:]}"
        return
    if is_error == does_its_work:
        yield f"{tool} answers {done.stdout[-500:]}"
    else:
        answer = json.loads(result["content"][0]["text"])
        print(f"{tool}: {answer['error']['code'] if is_error else 'ok'}")


def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run the Inspector; it has a limited time."""
    return subprocess.run(command, capture_output=True, text=True, timeout=CALL_S, check=False)


@contextmanager
def service() -> Iterator[tuple[str, str]]:
    """A service on this machine: its address and a key."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    directory = Path(tempfile.mkdtemp(prefix="meetcore-lint-"))
    directory.chmod(0o711)
    # Without search permission for the database's own user, its data would be stored outside this directory.
    (directory / "data").mkdir(mode=0o711)
    command = [
        sys.executable,
        "-m",
        "meetcore.cli.main",
        "dev",
        "--port",
        str(port),
        "--data-dir",
        "data",
    ]
    output_file = directory / "said"
    env = {name: text for name, text in os.environ.items() if not name.startswith("MEETCORE_")}
    with (
        output_file.open("w") as out,
        subprocess.Popen(
            command,
            cwd=directory,
            stdout=out,
            stderr=subprocess.DEVNULL,
            env=env | {"PYTHONPATH": str(ROOT / "src")},
        ) as child,
    ):
        try:
            deadline = time.monotonic() + START_S
            while "Ctrl-C" not in (text := output_file.read_text()):
                if child.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit("lint-mcp: meetcore dev did not come up")
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}", re.findall(r"demo API key +(\S+)", text)[0]
        finally:
            child.terminate()
    shutil.rmtree(directory)


def installed(place: Path) -> tuple[list[str] | None, str]:
    """How to run the Inspector, installed if it is not there yet; else why not."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        return None, "npm is not installed"
    version = run([node, "--version"]).stdout.strip().lstrip("v")
    if tuple(int(part) for part in version.split(".")[:2]) < NODE:
        return None, f"it needs Node.js {'.'.join(map(str, NODE))}, and this is {version}"
    package = place / "node_modules" / "@modelcontextprotocol" / "inspector"
    if (
        not (package / "package.json").exists()
        or json.loads((package / "package.json").read_text("utf-8")).get("version") != INSPECTOR
    ):
        place.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--no-fund", "--no-audit", "--ignore-scripts", "--prefix", str(place)]
        name = f"@modelcontextprotocol/inspector@{INSPECTOR}"
        if subprocess.run([*command, name], capture_output=True, text=True, check=False).returncode != 0:
            return None, "npm could not install it"
    return [node, str(package / "clients" / "launcher" / "build" / "index.js")], ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
