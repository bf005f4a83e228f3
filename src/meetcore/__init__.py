"""Online meetings and meeting notes, sold against prepaid credits and reported by signed webhooks.

The packages, from the inside out:

- ``meetcore.domain``: the rules. The standard library and attrs; no I/O, no clock, no randomness, no
  await. Time, ids and random bytes come in as arguments; decisions go out as values.
- ``meetcore.ports``: the interfaces that the rules need, as protocols in the terms of the domain.
- ``meetcore.usecases``: one for each operation of a caller. Opens a transaction, applies the domain, saves.
- ``meetcore.adapters``: one folder for each technology. ``http``, ``worker``, ``mcp`` and ``dashboard``
  drive the use cases; ``api`` holds the operations that ``http`` and ``mcp`` share; ``postgres``,
  ``memory``, ``redis``, the video providers and the rest are driven through ports.
- ``meetcore.composition``: settings to ports to application; it alone knows which adapter fills which port.
- ``meetcore.app``: the ASGI application. ``meetcore.cli``: the command line.
- ``meetcore.client``: a client of the API, for customers' programs. It imports the domain only.
- ``meetcore.testing``: strategies, contract suites and the simulation, for authors of other adapters.

Imports run one way: ``cli > app > composition > driving adapters > usecases > ports > domain``; driven
adapters know ports and domain only, and no adapter imports another, but for the package ``api``.
``make check`` holds it.

This module imports nothing, so that ``import meetcore.domain`` costs what the rules cost and no more.
"""
