"""The kit is whole: every port has its suite, and joined suites lose no test."""

import importlib
import pkgutil
from itertools import combinations
from types import ModuleType

import pytest

import meetcore.ports
from meetcore.testing import contracts
from tests.support.program import ROOT

SUITES = {name: getattr(contracts, name) for name in contracts.__all__ if name.endswith("Contract")}
STORE_SUITES = [
    contracts.PostingRepositoryContract,
    contracts.MeetingRepositoryContract,
    contracts.HostsContract,
    contracts.IdempotencyRepositoryContract,
    contracts.EndpointRepositoryContract,
    contracts.DeliveryRepositoryContract,
    contracts.DeliveryLimitsContract,
    contracts.ProviderEventInboxContract,
    contracts.RecordingRepositoryContract,
    contracts.NoteRepositoryContract,
    contracts.HostKeyRepositoryContract,
    contracts.OrphanCheckRepositoryContract,
    contracts.MailRepositoryContract,
    contracts.SharedCapContract,
    contracts.AuditLogContract,
    contracts.MemberRepositoryContract,
    contracts.SignInRepositoryContract,
    contracts.OperatorRepositoryContract,
    contracts.PasskeyRepositoryContract,
    contracts.DashboardQueriesContract,
    contracts.ErasureRepositoryContract,
    contracts.ConsoleQueriesContract,
    contracts.ProposalRepositoryContract,
]
# Proven by the suite that is named, because they are never used alone.
WITHIN = {
    "KeyedCipher": "CipherContract",
    "Transaction": "StoreContract",
    "RegistryRepository": "RegistryContract",
    "MemberQueries": "StoreContract",
    "LedgerSnapshot": "LedgerAuditContract",
    "Fence": "RestoreRepositoryContract",
    "LedgerTotals": "QueriesContract",
    "ListQueries": "ListsContract",
    "EndpointHealthQueries": "QueriesContract",
    "MailQueries": "MailRepositoryContract",
    "RequestQueries": "RequestLogContract",
}


def ports() -> list[type]:
    """Every protocol of `meetcore.ports`, from the module that defines it."""
    found: list[type] = []
    for module in pkgutil.iter_modules(meetcore.ports.__path__, "meetcore.ports."):
        found += protocols(importlib.import_module(module.name))
    return found


def protocols(module: ModuleType) -> list[type]:
    own = [one for one in vars(module).values() if getattr(one, "__module__", None) == module.__name__]
    return [one for one in own if isinstance(one, type) and getattr(one, "_is_protocol", False)]


def names_of(suite: type) -> set[str]:
    return {name for name in dir(suite) if name.startswith("test_")}


@pytest.mark.parametrize("port", ports(), ids=lambda port: port.__name__)
def test_every_port_has_a_suite(port: type):
    assert WITHIN.get(port.__name__, f"{port.__name__}Contract") in SUITES


def test_the_ports_are_found():
    found = {port.__name__ for port in ports()}
    assert {"Store", "PostingRepository", "DeliveryRepository", "Clock"} <= found


def test_every_suite_tests_something():
    assert SUITES
    assert [name for name, suite in SUITES.items() if not names_of(suite)] == []


def test_every_suite_is_in_the_table():
    text = (ROOT / "docs" / "testing.md").read_text("utf-8")
    assert [name for name in SUITES if f"`{name}`" not in text] == []


def test_no_suite_takes_a_test_from_another_that_it_is_joined_with():
    for one, other in combinations(STORE_SUITES, 2):
        assert names_of(one) & names_of(other) == set()
    assert names_of(contracts.StoreContract) == set().union(*map(names_of, STORE_SUITES))


@pytest.mark.parametrize("suite", [contracts.MeetingRepositoryContract, contracts.NoteRepositoryContract])
def test_the_parts_of_a_joined_suite_take_nothing_from_each_other(suite: type):
    for part, other in combinations(suite.__bases__, 2):
        assert names_of(part) & names_of(other) == set()
