"""A stand-in for Zoom: what its API does with meetings, over real HTTP on loopback, with faults on demand.

::

    wire      HTTP as bytes, so that an answer can be late, broken or missing
    account   the users, the meetings and the rules that Zoom has for them
    refusals  Zoom's error answers, by name
    faults    what the next calls meet
    api       the paths under /v2 and /oauth
    admin     the paths under /stand-in: the truth about what exists, and the switches

`meetcore.testing.zoom_server` runs it. It knows Zoom's documents and no client of it.
"""
