"""Media on this machine: PyAV, which brings ffmpeg's libraries in its wheel, in processes of their own.

`editor` fills `AudioEditor`: it opens scratch files and starts one process for each command, since decoding
untrusted files is slow, takes memory and may crash. In the process run `__main__`, `commands`
(arguments and answers), `limits` (what it may use), `sound` (opening and measuring), `aac` (a stretch as it
is) and `opus` (a stretch encoded anew).
"""

from meetcore.adapters.media.editor import AvAudioEditor, can_edit

__all__ = ["AvAudioEditor", "can_edit"]
