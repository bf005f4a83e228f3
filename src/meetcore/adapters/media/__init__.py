"""Media on this machine: PyAV, which brings ffmpeg's libraries in its wheel, in processes of their own.

`editor` fills `AudioEditor`: it opens scratch files and starts one process for each act, since decoding what
strangers made is slow, takes memory and may crash. In there, alone with the file, run `start`, `acts` (what
is asked and answered), `bounds` (what it may take), `sound` (opening and measuring), `aac` (a stretch as it
is) and `opus` (a stretch encoded anew).
"""

from meetcore.adapters.media.editor import AvAudioEditor

__all__ = ["AvAudioEditor"]
