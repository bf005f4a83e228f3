"""Files that only their owner may read."""

import os
from pathlib import Path


def write_private(file: Path, text: str) -> None:
    """Write a file that its owner alone may read, whole or not at all."""
    draft = file.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text)
    draft.replace(file)
