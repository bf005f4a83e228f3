"""Entry point of the child process; `commands` describes its arguments and reply.

Run as a script in Python's isolated mode: of meetcore only this folder can be imported, which spares the cost
of loading the rest.
"""

import os
import sys
from types import ModuleType

if __name__ == "__main__":
    package = ModuleType("meetcore.adapters.media")
    package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
    sys.modules[package.__name__] = package
    from meetcore.adapters.media.commands import main

    sys.exit(main(sys.argv[1:]))
