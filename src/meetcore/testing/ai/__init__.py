"""A stand-in for an AI provider: OpenAI's documented API over real HTTP on loopback, with faults on demand.

::

    hearing   the transcript of a sound: a segment for every five seconds of its true length
    writing   what it makes of a conversation: JSON by the schema that was asked for
    faults    what faults do
    api       the paths under /v1
    admin     the paths under /stand-in: what was asked, how often, how much at once; and the switches

`meetcore.testing.ai_server` runs it. Connections are `meetcore.testing.wire`'s, which calls meet a
fault is `meetcore.testing.planned_faults`'. It knows OpenAI's documents and no client of it.
"""
