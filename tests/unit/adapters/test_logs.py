"""A log line names what went wrong, and no value that was at hand when it did."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
if "--terminal" in sys.argv:
    sys.stderr.isatty = lambda: True
import structlog
from meetcore.adapters.system import configure_logs
configure_logs("info")

def sign(secret):
    raise ValueError("does not fit")

try:
    sign("whsec_" + "7" * 30)
except ValueError:
    structlog.get_logger("x").exception("fault", during="sign")
"""


@pytest.mark.parametrize("where", ["--terminal", "--file"])
def test_a_traceback_shows_no_local_variables(where: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, where], capture_output=True, text=True, timeout=60, check=True
    )
    assert "does not fit" in ran.stderr
    assert "in sign" in ran.stderr
    assert "7" * 30 not in ran.stderr
