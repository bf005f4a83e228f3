"""The way to an address: whether it is in the clear, and the proxy that the variables of an environment name.

These are read as curl and Go do. `NO_PROXY` may hold names, with or without a leading dot, addresses in
brackets or without, networks, a port behind each, and `*`. What it cannot mean is passed over.
"""

import re
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_ENTRY: Final = re.compile(r"\A\[?(.*?)\]?(?::(\d{1,5}))?\Z")
_SCHEME: Final = re.compile(r"[a-z0-9+.-]+://", re.IGNORECASE)


def is_in_the_clear(url: str) -> bool:
    """Return whether what is sent to an address can be read on the way: http, and not to this machine."""
    return urlsplit(url).scheme == "http" and not is_this_machine(url)


def is_this_machine(url: str) -> bool:
    """Return whether an address names loopback: by number, or as `localhost`."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def proxy_of(url: str, variables: Mapping[str, str]) -> str | None:
    """Return the proxy for an address; `None` where none is named or the address is exempt.

    Args:
        url: an absolute address of http or https.
        variables: of the environment; names in lower case come first.
    """
    parts = urlsplit(url)
    named = _value(f"{parts.scheme}_proxy", variables) or _value("all_proxy", variables)
    if not named or _is_exempt(parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme], variables):
        return None
    return named if _SCHEME.match(named) else f"http://{named}"


def check_proxy(proxy: str | None) -> str | None:
    """Return a proxy that is named; raise `ValueError` for one to which no connection can be made."""
    if proxy is not None and (" " in proxy or not proxy.isprintable() or urlsplit(proxy).port == 0):
        raise ValueError("no address of a proxy")  # as reading a port out of range does
    return proxy


def _value(name: str, variables: Mapping[str, str]) -> str:
    return (variables.get(name) or variables.get(name.upper()) or "").strip()


def _is_exempt(host: str, port: int, variables: Mapping[str, str]) -> bool:
    entries = re.split(r"[,\s]+", _value("no_proxy", variables))
    return any(_covers(entry.lower(), host, port) for entry in entries if entry)


def _covers(entry: str, host: str, port: int) -> bool:
    address = _address(host)
    if address is not None and "/" in entry:
        try:
            return address in ip_network(entry, strict=False)
        except ValueError:
            return False
    if (found := _address(entry)) is not None:
        return found == address
    name, only = _ENTRY.findall(entry)[0]
    if only and int(only) != port:
        return False
    if (found := _address(name)) is not None:
        return found == address
    name = name.removeprefix("*.").removeprefix(".")
    if not name:
        return False
    return name == "*" or host == name or (address is None and host.endswith(f".{name}"))


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
