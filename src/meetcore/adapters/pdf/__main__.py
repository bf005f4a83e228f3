"""The start of a process that lays out one document: of meetcore only this package can be imported.

Run as a script, by path, in Python's isolated mode. It reads one JSON document from standard input and writes
the PDF to standard output; see `printer`. Without a PDF it ends with status 1, or by a signal.
"""

import os
import sys
from types import ModuleType

if __name__ == "__main__":
    package = ModuleType("meetcore.adapters.pdf")
    package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
    sys.modules[package.__name__] = package
    from meetcore.adapters.pdf.child import main

    sys.exit(main(sys.argv[1:]))
