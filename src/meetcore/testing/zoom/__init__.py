"""A stand-in for Zoom: what its API does with meetings, over real HTTP on loopback, with faults on demand.

::

    account   the users, the meetings and the rules that Zoom has for them
    refusals  Zoom's error answers, by name
    faults    what faults do
    api       the paths under /v2 and /oauth
    admin     the paths under /stand-in: what really exists, and the switches

`meetcore.testing.zoom_server` runs it. Connections are `meetcore.testing.wire`'s, which calls meet
a fault is `meetcore.testing.planned_faults`'. It knows Zoom's documents and no client of it.
"""
