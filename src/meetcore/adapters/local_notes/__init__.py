"""Notes without a network and without a key: what matters is found by rules and by counting, never made up.

`sentences` cuts what was said, `summary` finds the sentences and words that stand for the rest, `decisions`
and `actions` find what was decided and what is to be done, in Indonesian and in English, whichever is
spoken, with `names` and `dates` for who and when. Every word of a note is a word that was said, but for the
few that the `language` asked for decides: nothing is translated.
"""

from meetcore.adapters.local_notes.writer import LocalNoteWriter

__all__ = ["LocalNoteWriter"]
