"""The clock and the randomness of the operating system.

The only place where the present is read for the use cases, and where their secrets are drawn.
"""

from meetcore.adapters.system.clock import SystemClock
from meetcore.adapters.system.entropy import SystemEntropy
from meetcore.adapters.system.logs import configure_logs, stdlib_logging
from meetcore.adapters.system.open_files import allow_open_files
from meetcore.adapters.system.parent import at_end_of_parent, stop_with_parent
from meetcore.adapters.system.processors import cores
from meetcore.adapters.system.version import version

__all__ = [
    "SystemClock",
    "SystemEntropy",
    "allow_open_files",
    "at_end_of_parent",
    "configure_logs",
    "cores",
    "stdlib_logging",
    "stop_with_parent",
    "version",
]
