"""The settings of the example: as few as Django runs with."""

import os
import secrets
from typing import Any

SECRET_KEY = secrets.token_urlsafe(50)  # nothing signed has to outlive the process here
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
ROOT_URLCONF = "examples.django_ledger.urls"
INSTALLED_APPS = ["examples.django_ledger.wallet"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
TIME_ZONE = "UTC"
USE_TZ = True  # every instant is aware, as the ledger wants it


def sqlite(path: str) -> dict[str, Any]:
    """A SQLite file. `IMMEDIATE` takes the write lock when a transaction begins: SQLite has no row locks."""
    # Triggers fire for a row that REPLACE takes away, too: by default it would slip past them.
    replaced = "PRAGMA recursive_triggers = ON;"
    options = {"transaction_mode": "IMMEDIATE", "timeout": 20, "init_command": replaced}
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": path, "OPTIONS": options}


def postgres(url: str) -> dict[str, Any]:
    """A PostgreSQL database, by a URL or a connection string as libpq takes it."""
    from psycopg.conninfo import conninfo_to_dict  # needed, and installed, only with PostgreSQL

    options = conninfo_to_dict(url)
    name = options.pop("dbname", "")
    return {"ENGINE": "django.db.backends.postgresql", "NAME": name, "OPTIONS": options}


_url = os.environ.get("WALLET_POSTGRES_URL")
DATABASES = {"default": postgres(_url) if _url else sqlite("wallet.sqlite3")}
