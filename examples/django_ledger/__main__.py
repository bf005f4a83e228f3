"""The `manage.py` of this project. Run it from the root of the checkout, with meetcore and Django installed.

::

    python -m examples.django_ledger migrate
    python -m examples.django_ledger wallet demo      # tops up, buys, is refused, gives back
    python -m examples.django_ledger wallet prove     # proves every account's history
    python -m examples.django_ledger runserver        # POST /accounts/<id>/purchases

The database is `wallet.sqlite3` where you start it, or PostgreSQL when `WALLET_POSTGRES_URL` names one.
"""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "examples.django_ledger.settings")
    execute_from_command_line(sys.argv)
