"""The kit that proves an adapter or a rule (`pip install 'meetcore[testing]'`).

::

    strategies    Hypothesis strategies over the domain: amounts, account histories, instants around
                  midnight WIB, requests, endpoints, addresses
    contracts     a suite for each port to the outside, and for a ledger of one's own
    ledger        the interface of a ledger for the suites, and a machine that compares it with a model
    receiver      a webhook receiver over TLS with scripted misbehaviour
    zoom_server   a stand-in for Zoom over HTTP, with faults on demand
    ai_server     a stand-in for an AI provider over HTTP, with faults on demand
    midtrans_server, xendit_server, stripe_server
                  stand-ins for payment gateways over HTTP, with faults on demand
    sounds        silence of any length, and the length of a sound
    clock         a clock and an entropy under the test's control

No other package of meetcore imports it.
"""

try:
    import pytest
except ImportError as missing:  # pragma: no cover - pytest is what runs this line's tests
    raise ImportError(
        "meetcore.testing needs pytest and Hypothesis: pip install 'meetcore[testing]'"
    ) from missing

# Before a suite is imported, so that its asserts report the values.
pytest.register_assert_rewrite("meetcore.testing.contracts", "meetcore.testing.ledger")
