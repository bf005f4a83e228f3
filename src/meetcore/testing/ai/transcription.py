"""What the stand-in transcribes: the length of a sound, not its contents.

A sound is as long as its file is, whatever the request says of it. Every five seconds of it are a
segment whose text names its position, so that a caller that joins pieces can prove that no second is lost.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from attrs import field, frozen

__all__ = ["SEGMENT_S", "Form", "form_of", "segments"]

SEGMENT_S: Final = 5.0
"""How long a segment is, the last one of a sound perhaps less."""

_BOUNDARY: Final = re.compile(r'boundary="?([^";]+)')
_NAME: Final = re.compile(r'[; ]name="([^"]*)"')
_FILE_NAME: Final = re.compile(r'[; ]filename="([^"]*)"')


@frozen
class Form:
    """A multipart form: its fields, and its one file with what it is called."""

    fields: Mapping[str, str]
    file: bytes | None = field(repr=False)
    file_name: str = ""


def form_of(content_type: str, body: bytes) -> Form:
    """Read a `multipart/form-data` body, byte for byte; of anything else nothing."""
    fields: dict[str, str] = {}
    file: bytes | None = None
    file_name = ""
    boundary = _BOUNDARY.search(content_type)
    parts = (b"\r\n" + body).split(b"\r\n--" + boundary[1].encode("latin-1")) if boundary else []
    for part in parts[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        disposition = head.decode("utf-8", "replace")
        name = _NAME.search(disposition)
        if name is None:
            continue
        if "filename=" not in disposition:
            fields[name[1]] = content.decode("utf-8", "replace")
        elif name[1] == "file":
            file = content
            called = _FILE_NAME.search(disposition)
            file_name = called[1] if called else ""
    return Form(fields, file, file_name)


def segments(length_s: float) -> Iterator[dict[str, object]]:
    """The segments of a sound of this length, in the form of `verbose_json`."""
    number, at_s = 0, 0.0
    while at_s < length_s:
        until_s = min(at_s + SEGMENT_S, length_s)
        yield {
            "id": number,
            "seek": 0,
            "start": round(at_s, 3),
            "end": round(until_s, 3),
            "text": f" Kalimat ke-{number + 1} dimulai pada detik {at_s:.0f}.",
            "tokens": [],
            "temperature": 0.0,
            "avg_logprob": -0.2,
            "compression_ratio": 1.1,
            "no_speech_prob": 0.01,
        }
        number, at_s = number + 1, at_s + SEGMENT_S
