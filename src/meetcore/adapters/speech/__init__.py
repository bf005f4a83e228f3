"""Speech to text on this machine: no network, no key, and no model but the one that a package carries.

`transcriber` fills `Transcriber` with a child process for each piece; `hear` is what runs in it. Only whoever
has installed the extra `speech` can use it.
"""

from meetcore.adapters.speech.transcriber import LocalTranscriber, can_hear

__all__ = ["LocalTranscriber", "can_hear"]
