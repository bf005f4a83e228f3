"""Speech to text on this machine: no network, no key, and no model but the one of a package.

`transcriber` fills `Transcriber` with a child process for each piece; `transcribe_child` runs in it. Only
code that has installed the extra `speech` can use it.
"""

from meetcore.adapters.speech.transcriber import LocalTranscriber, can_transcribe

__all__ = ["LocalTranscriber", "can_transcribe"]
