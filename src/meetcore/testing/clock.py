"""Time and randomness that a test controls.

`ManualClock` stands still until it is moved, `SeededEntropy` draws the same bytes for the same seed.
"""

from meetcore.adapters.memory.clock import ManualClock
from meetcore.adapters.memory.entropy import SeededEntropy

__all__ = ["ManualClock", "SeededEntropy"]
