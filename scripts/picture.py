"""Take the picture of the README: the overview of the demo account, as `make run` shows it.

    python scripts/picture.py [path] [file]

Without arguments it is `/dashboard`, for `docs/pictures/overview.png`. It needs Chromium.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from PIL import Image  # noqa: E402

from tests.support.chromium import chromium, enter  # noqa: E402
from tests.support.program import START_S, Launcher, environment, free_port, until  # noqa: E402

WIDTH = 1200


def main(path: str = "/dashboard", file: str = str(ROOT / "docs" / "pictures" / "overview.png")) -> None:
    """Start the service with an empty directory, sign in, and save the whole page."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o711)
        (Path(place) / "data").mkdir(mode=0o711)
        launcher, port = Launcher(Path(place)), free_port()
        process = launcher.start(
            "dev", "--port", port, "--data-dir", "data", env=environment(), cwd=Path(place)
        )
        try:
            until(lambda: "Ctrl-C" in process.out.read_text(), "it is up", START_S)
            [link] = re.findall(r"customer sign-in (\S+)", process.out.read_text())
            with chromium() as browser:
                context = browser.new_context(viewport={"width": WIDTH, "height": 800}, locale="en")
                enter(context, link)
                page = context.new_page()
                page.goto(f"http://127.0.0.1:{port}{path}")
                page.screenshot(path=file, full_page=True)
                with Image.open(file) as picture:  # a third of the size, without a visible difference
                    picture.quantize(128).save(file, optimize=True)
        finally:
            process.stop()
            launcher.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
