"""How a process begins that works on media: this room can be imported by its name, nothing else of meetcore.

Run as a script, by path, in Python's isolated mode: what else lies beside the script, and what loading all of
meetcore would cost, stays away. Its arguments and its answer are described in `commands`.
"""

import os
import sys
from types import ModuleType

if __name__ == "__main__":
    room = ModuleType("meetcore.adapters.media")
    room.__path__ = [os.path.dirname(os.path.abspath(__file__))]
    sys.modules[room.__name__] = room
    from meetcore.adapters.media.commands import main

    sys.exit(main(sys.argv[1:]))
