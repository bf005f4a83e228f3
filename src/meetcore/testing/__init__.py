"""The kit that proves an adapter or a rule (`pip install 'meetcore[testing]'`).

::

    strategies       Hypothesis strategies over the domain: amounts, account histories, instants
                     round midnight WIB, requests, endpoints, addresses
    contracts        one suite for each port; subclass it, give a fixture, and pytest holds your
                     adapter against the same tests as ours
    receiver         a webhook receiver over TLS with scripted misbehaviour
    zoom_server      a stand-in for Zoom over HTTP, with faults on demand
    account_machine  a stateful machine that runs an account against several stores at once
    note_machine     the same for notes: claimed, taken over, paid and erased
    memory_rig       the memory store, ready for the suites
    clock            a clock and an entropy that the test controls

Owns what users of the library test with. No other package of meetcore
imports it.
"""

try:
    import pytest
except ImportError as missing:  # pragma: no cover - pytest is what runs this line's tests
    raise ImportError(
        "meetcore.testing needs pytest and Hypothesis: pip install 'meetcore[testing]'"
    ) from missing

# Before any suite is imported, so that its plain asserts report what they compared.
pytest.register_assert_rewrite(
    "meetcore.testing.contracts", "meetcore.testing.account_machine", "meetcore.testing.note_machine"
)
