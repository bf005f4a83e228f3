"""The database refuses to change or delete an entry, whether by program, in a shell or by mistake.

What is refused raises `django.db.IntegrityError`. On SQLite Django alters a table by making it anew, and the
triggers go with the old one: a later migration that alters `EntryRow` runs `guard` again at its end.
"""

from typing import Any, ClassVar

from django.db import migrations

_GUARDS = {
    "sqlite": (
        "CREATE TRIGGER entries_never_change BEFORE UPDATE ON wallet_entryrow"
        " BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
        "CREATE TRIGGER entries_never_go BEFORE DELETE ON wallet_entryrow"
        " BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
    ),
    "postgresql": (
        "CREATE FUNCTION refuse_to_change_entries() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN RAISE 'the ledger is append-only' USING ERRCODE = 'restrict_violation'; END$$",
        "CREATE TRIGGER entries_never_change BEFORE UPDATE ON wallet_entryrow"
        " EXECUTE FUNCTION refuse_to_change_entries()",
        "CREATE TRIGGER entries_never_go BEFORE DELETE OR TRUNCATE ON wallet_entryrow"
        " EXECUTE FUNCTION refuse_to_change_entries()",
    ),
}

_OPENINGS = {
    "sqlite": ("DROP TRIGGER entries_never_change", "DROP TRIGGER entries_never_go"),
    "postgresql": (
        "DROP TRIGGER entries_never_change ON wallet_entryrow",
        "DROP TRIGGER entries_never_go ON wallet_entryrow",
        "DROP FUNCTION refuse_to_change_entries()",
    ),
}


def guard(apps: Any, schema_editor: Any) -> None:
    """Put the triggers on. A database that has none here is a KeyError, not a ledger without a guard."""
    for statement in _GUARDS[schema_editor.connection.vendor]:
        schema_editor.execute(statement, params=None)


def open_up(apps: Any, schema_editor: Any) -> None:
    """Take the triggers off."""
    for statement in _OPENINGS[schema_editor.connection.vendor]:
        schema_editor.execute(statement, params=None)


class Migration(migrations.Migration):
    """Written by hand: Django has no word for a trigger."""

    dependencies: ClassVar[list[tuple[str, str]]] = [("wallet", "0001_initial")]

    operations: ClassVar[list[Any]] = [migrations.RunPython(guard, open_up)]
