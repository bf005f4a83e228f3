"""Deterministic simulation: the application's processes on one event loop, over the real SQL.

Everything that happens is decided by a seed: the order of callbacks, delays, faults, deaths. The same seed
gives the same run, to the last statement. `loop` has the event loop and the processes, `database` the
connections, `outside` the services that the application calls, `guests` what is held at the provider,
`enrolment` what is there before, `customers` the requests, `plants` faults that a run must find, and `oracle`
the rules by which it is judged.
"""
