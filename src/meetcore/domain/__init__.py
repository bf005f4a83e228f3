"""The rules, pure: nothing here does I/O, reads a clock, draws randomness or awaits."""
