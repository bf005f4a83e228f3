"""The check that the program can listen on its address, made before anything else is started."""

import errno
import socket

from meetcore.cli.output import ExitCode, complain


def refuse_taken(host: str, port: int, choice: str = "--port") -> None:
    """Refuse a port that is not free; `choice` is how another one is chosen.

    Raises:
        SystemExit: it is taken, or the address is not one of this machine; reported on standard error.
    """
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
    except OSError as error:
        message = f"cannot listen on {host}, port {port}: {error.strerror}"
        if error.errno == errno.EADDRINUSE:
            message = f"port {port} is taken; choose another with {choice}"
        complain("port", message, as_json=False)
        raise SystemExit(ExitCode.REFUSED) from None
