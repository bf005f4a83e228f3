"""Media on this machine: PyAV, which brings ffmpeg's libraries in its wheel, in processes of their own.

`editor` fills `AudioEditor`: it opens scratch files and starts one process for each act. `work` is what runs
in there, alone with the file: decoding what strangers made is slow, takes memory and may crash.
"""

from meetcore.adapters.media.editor import AvAudioEditor

__all__ = ["AvAudioEditor"]
