"""The `manage.py` of this project. Run it from the root of the checkout, with meetcore and Django installed.

::

    pip install . django
    python -m examples.django_ledger migrate
    python -m examples.django_ledger wallet demo      # tops up, buys, is refused, gives back
    python -m examples.django_ledger wallet prove     # proves every account's history
    python -m examples.django_ledger runserver        # answers until it is interrupted

With the account that `wallet demo` named, buy from another terminal; sent again, it is paid once::

    curl -i -d '{"order": "o-3", "price": 10}' http://127.0.0.1:8000/accounts/ACCOUNT/purchases

The database is `wallet.sqlite3` where you start it, or PostgreSQL when `WALLET_POSTGRES_URL` names one.
"""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "examples.django_ledger.settings")
    execute_from_command_line(sys.argv)
