"""The start of a process that works on media: of meetcore only this package can be imported.

Run as a script, by path, in Python's isolated mode: what else lies beside the script, and what loading all of
meetcore would cost, stays away. Its arguments and its answer are described in `commands`.
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
