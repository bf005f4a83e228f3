"""Online meetings and meeting notes, sold against prepaid credits and reported by signed webhooks.

The packages, from the inside out:

- ``meetcore.domain``: the rules. The standard library and attrs; no I/O, no clock, no randomness, no
  await. Time, ids and random bytes come in as arguments; decisions go out as values.
- ``meetcore.ports``: protocols of the outside and the methods of the store, in the terms of the domain.
- ``meetcore.usecases``: one for each operation of a caller. Opens a transaction, applies the domain, saves.
- ``meetcore.adapters``: one folder for each technology. ``http``, ``worker``, ``mcp`` and ``web`` drive the
  use cases; ``api`` holds the operations that ``http`` and ``mcp`` share; ``postgres``, ``redis``, the video
  providers and the rest are driven through ports.
- ``meetcore.composition``: settings to ports to application; it alone knows which adapter fills which port.
- ``meetcore.app``: the ASGI application. ``meetcore.cli``: the command line.
- ``meetcore.client``: a client of the API, for customers' programs. It imports the domain only.
- ``meetcore.testing``: strategies, contract suites and stand-ins, for authors of other adapters.

Imports run one way: ``cli > app > composition > driving adapters > usecases > ports > domain``; driven
adapters know ports and domain only, and no adapter imports another, but for the package ``api``.
``make check`` holds it.

This module imports nothing before `__version__` is asked for, so that ``import meetcore.domain`` costs what
the rules cost and no more.
"""


def __getattr__(name: str) -> str:
    """Return `__version__`, of the distribution that is installed; read when it is asked for."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import metadata

    try:
        return metadata.version("meetcore")
    except metadata.PackageNotFoundError:
        return "0"  # from a checkout that is not installed
