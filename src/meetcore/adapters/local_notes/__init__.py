"""Notes without a network and without a key: what matters is found by rules and by counting, never made up.

`sentences` splits the transcript, `summary` ranks sentences and words, `decisions`
and `actions` find what was decided and what is to be done, in Indonesian and in English, whichever is
spoken, with `names` and `dates` for who and when. Every word of a note occurs in the transcript, but for a
few set by the `language`: nothing is translated.
"""

from meetcore.adapters.local_notes.writer import LocalNoteWriter

__all__ = ["LocalNoteWriter"]
