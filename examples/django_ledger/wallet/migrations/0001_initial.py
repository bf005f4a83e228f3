"""The two tables."""

from typing import Any, ClassVar

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """As `makemigrations` wrote it."""

    initial = True

    dependencies: ClassVar[list[tuple[str, str]]] = []

    operations: ClassVar[list[Any]] = [
        migrations.CreateModel(
            name="Account",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("balance", models.BigIntegerField(default=0)),
                ("held", models.BigIntegerField(default=0)),
                ("low_threshold", models.BigIntegerField()),
                ("is_low", models.BooleanField()),
                ("entries", models.BigIntegerField(default=0)),
                ("last_hash", models.BinaryField(default=bytes(32), max_length=32)),
                ("last_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("held__gte", 0)), name="held_not_negative")
                ],
            },
        ),
        migrations.CreateModel(
            name="EntryRow",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("number", models.BigIntegerField()),
                ("transfer_id", models.UUIDField()),
                ("operation", models.CharField(max_length=255)),
                ("kind", models.CharField(max_length=32)),
                ("amount", models.BigIntegerField()),
                ("source", models.CharField(max_length=32)),
                ("destination", models.CharField(max_length=32)),
                ("reference_type", models.CharField(max_length=255)),
                ("reference_id", models.CharField(max_length=255)),
                ("reverses", models.UUIDField(null=True)),
                ("api_key_id", models.UUIDField(null=True)),
                ("cap_day", models.DateField(null=True)),
                ("balance_after", models.BigIntegerField()),
                ("at", models.DateTimeField()),
                ("hash", models.BinaryField(max_length=32)),
                (
                    "account",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to="wallet.account"),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("account", "number"), name="one_entry_a_number"),
                    models.UniqueConstraint(fields=("account", "transfer_id"), name="one_transfer_an_id"),
                    models.UniqueConstraint(
                        fields=("account", "operation"), name="one_transfer_an_operation"
                    ),
                    models.UniqueConstraint(fields=("account", "reverses"), name="one_refund_a_charge"),
                    models.CheckConstraint(condition=models.Q(("amount__gte", 1)), name="amount_positive"),
                    models.CheckConstraint(
                        condition=models.Q(("source", models.F("destination")), _negated=True),
                        name="two_books",
                    ),
                ],
            },
        ),
    ]
