"""Files that a page gives to keep."""

from starlette.responses import Response

from meetcore.adapters.web.visit import HEADERS


def send_file(body: bytes, name: str, media_type: str) -> Response:
    """Answer with a file to keep, under an ASCII name."""
    headers = HEADERS | {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(body, headers=headers, media_type=media_type)
