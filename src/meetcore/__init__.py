"""Online meetings and meeting notes, sold against prepaid credits and told about by signed webhooks.

The rooms of the house, from the inside out:

- ``meetcore.domain``: the rules. The standard library and attrs; no I/O, no clock, no randomness, no
  await. Time, ids and random bytes come in as arguments; decisions go out as values.
- ``meetcore.ports``: what the rules ask of the world, as protocols in the words of the domain.
- ``meetcore.usecases``: one for each thing a caller can ask for. Opens a transaction, asks the domain,
  saves.
- ``meetcore.adapters``: one folder for each technology. ``http``, ``worker``, ``mcp``, ``dashboard`` and
  ``cli`` drive the use cases; ``api`` holds the operations that ``http`` and ``mcp`` share; ``postgres``,
  ``memory``, ``redis``, the video providers and the rest are driven through ports.
- ``meetcore.app``: the composition root, from settings to adapters to use cases to the ASGI application.
- ``meetcore.client``: a client of the API, for customers' programs. It knows the domain and no other room.
- ``meetcore.testing``: strategies, contract suites and the simulation, for whoever writes another adapter.

Imports run one way: ``cli > app > driving adapters > usecases > ports > domain``; driven adapters know
ports and domain only, and no adapter imports another, but for the room ``api``. ``make check`` holds it.

This module imports nothing, so that ``import meetcore.domain`` costs what the rules cost and no more.
"""
