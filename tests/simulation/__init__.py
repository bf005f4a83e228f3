"""Deterministic simulation: the application's processes on one event loop, over the real SQL.

Everything that happens is decided by a seed: the order of callbacks, delays, faults, deaths. The same seed
gives the same run, to the last statement. `loop` has the event loop and the processes, `faults` what happens
to them, `database` and `pool` the connections.

Outside are the provider of meetings and the receivers of webhooks (`outside`), the `guests` who hold
sessions, the `studio` of recordings and notes, the gateway of `payments`, and the `clients` that ask:
`customers` with their `readers`, buyers and `operators`. `enrolment` is what is there before a run, `aging`
what comes long after.

`plants` are faults that a run must find, `oracle` and its parts the rules by which it is judged.
"""
