"""`credits verify` finds every rewrite by an attacker with write access but no key."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from attrs import evolve
from psycopg.rows import dict_row

from meetcore.adapters.postgres.money.rows import ENTRY, TRANSFER
from meetcore.adapters.postgres.money.rows import entry as entry_of
from meetcore.domain.money.hash_chain import ChainKey, Entry
from meetcore.domain.money.ledger import Funds, open_account, post
from tests.e2e.customers import enrol
from tests.support import servers
from tests.support.program import SECRETS_KEY, Launcher, Site

ATTACKER_KEY = ChainKey.of(b"t" * 32)
OTHER_KEY = base64.urlsafe_b64encode(bytes(reversed(range(32)))).decode()


@pytest.fixture
def ledger_site(launcher: Launcher, postgres_server_url: str) -> Iterator[Site]:
    with servers.migrated_database(postgres_server_url) as url:
        yield Site(launcher, url)


def verified(site: Site, **settings: object) -> tuple[bool, list[str]]:
    done = site.launcher.run("credits", "verify", "--json", env=site.env(**settings))
    assert done.code == (0 if done.json["is_sound"] else 1), done
    return done.json["is_sound"], done.json["findings"]


class Attacker:
    """Writes the tables of a ledger with triggers disabled."""

    def __init__(self, site: Site, account_id: str) -> None:
        self.account_id = UUID(account_id)
        self._connection = psycopg.connect(site.database_url, row_factory=dict_row)
        self._connection.execute("SET session_replication_role = replica")

    def entries(self) -> list[Entry]:
        found = self._connection.execute(
            f"""SELECT {ENTRY.select}, {TRANSFER.select}
            FROM ledger_entries e
            JOIN ledger_transfers t ON t.account_id = e.account_id AND t.id = e.transfer_id
            WHERE e.account_id = %s AND e.book = 'customer' ORDER BY e.number""".encode(), (self.account_id,),
        ).fetchall()  # fmt: skip
        return [made for row in found if (made := entry_of(row))]

    def rewrite(self, key: ChainKey | None, named: bytes = b"") -> None:
        """Increase the first top-up by a million, and rebuild the whole chain."""
        funds = open_account(self.account_id)
        forged: list[Entry] = []
        for number, entry in enumerate(self.entries()):
            transfer = entry.transfer
            if number == 0:
                transfer = evolve(transfer, amount=transfer.amount + 1_000_000)
            posting = post(funds, transfer, entry.at, key=key)
            assert posting.entry is not None
            funds = posting.funds
            forged.append(evolve(posting.entry, key_id=named or posting.entry.key_id))
        self._write(forged, funds)

    def _write(self, forged: list[Entry], funds: Funds) -> None:
        for entry in forged:
            about: dict[str, Any] = {
                "account_id": self.account_id, "number": entry.number, "amount": entry.amount,
                "moved": entry.transfer.amount, "id": entry.transfer.id, "balance_after": entry.balance_after,
                "hash": entry.hash, "chain_key": entry.key_id or None,
            }  # fmt: skip
            self._connection.execute(
                """UPDATE ledger_entries SET amount = %(amount)s, balance_after = %(balance_after)s,
                    hash = %(hash)s, chain_key = %(chain_key)s
                WHERE account_id = %(account_id)s AND number = %(number)s AND book = 'customer'""", about,
            )  # fmt: skip
            self._connection.execute(
                """UPDATE ledger_entries SET amount = -%(amount)s
                WHERE account_id = %(account_id)s AND number = %(number)s AND book <> 'customer'""", about,
            )  # fmt: skip
            self._connection.execute(
                """UPDATE ledger_transfers SET amount = %(moved)s
                WHERE account_id = %(account_id)s AND id = %(id)s""", about,
            )  # fmt: skip
        self.run(
            "UPDATE accounts SET balance = %s, entries = %s, last_hash = %s, last_at = %s WHERE id = %s",
            funds.balance, funds.entries, funds.last_hash, funds.last_at, self.account_id,
        )  # fmt: skip

    def run(self, statement: str, *parameters: object) -> None:
        """Execute and commit."""
        self._connection.execute(statement.encode(), parameters)
        self._connection.commit()

    def close(self) -> None:
        self._connection.close()


def test_a_rewritten_history_is_detected_under_any_chain_key(ledger_site: Site) -> None:
    account_id, _, _ = enrol(ledger_site, credits=15)
    ledger_site.cli("credits", "adjust", "--account", account_id, "--amount", "-5", "--reason", "r")
    assert verified(ledger_site) == (True, [])
    attacker = Attacker(ledger_site, account_id)
    [first, _] = attacker.entries()
    for key, named in ((None, b""), (ATTACKER_KEY, b""), (ATTACKER_KEY, first.key_id), (None, first.key_id)):
        attacker.rewrite(key, named)
        is_sound, [finding] = verified(ledger_site)
        assert (is_sound, f"account {account_id}: entry 1: it" in finding) == (False, True), finding
    shown = ledger_site.cli("account", "show", account_id)
    assert shown["balance"] > 1_000_000, "the attack is one that changes the balance"
    attacker.close()


def test_unknown_chain_keys_are_distinguished_from_a_forgery(ledger_site: Site) -> None:
    account_id, _, _ = enrol(ledger_site, credits=15)
    rotated = f"{OTHER_KEY},{SECRETS_KEY}"
    ledger_site.cli("credits", "topup", "--account", account_id, "--amount", 5, secrets_key=rotated)
    assert verified(ledger_site, secrets_key=rotated) == (True, [])
    is_sound, [finding] = verified(ledger_site)
    assert not is_sound
    assert f"account {account_id}: entry 2: it is chained under the key " in finding
    assert "MEETCORE_SECRETS_KEY" in ledger_site.launcher.run("credits", "verify", env=ledger_site.env()).err
