"""Audio editing by PyAV, which bundles ffmpeg's libraries, in child processes.

`editor` implements `AudioEditor` with one process for each command, since decoding untrusted files is slow,
takes memory and may crash. The child runs `__main__`, `commands` (protocol, limits), `sound` (opening,
measuring), `aac` (copying) and `opus` (encoding).
"""

from meetcore.adapters.media.editor import AvAudioEditor, can_edit

__all__ = ["AvAudioEditor", "can_edit"]
