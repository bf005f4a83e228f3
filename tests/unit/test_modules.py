"""Every module can be imported, those too that only one command or one setting needs."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import meetcore
from meetcore.adapters.speech import can_transcribe

# Runs in a child process, and imports the extra `speech`.
NEEDS_SPEECH = "meetcore.adapters.speech.transcribe_child"
IMPORT = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]"


def test_every_module_can_be_imported_without_a_warning() -> None:
    names = [each.name for each in pkgutil.walk_packages(meetcore.__path__, "meetcore.")]
    assert {"meetcore.app", "meetcore.domain.money.ledger", "meetcore.cli.main"} <= set(names)
    if not can_transcribe():
        names.remove(NEEDS_SPEECH)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORT, *names],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
