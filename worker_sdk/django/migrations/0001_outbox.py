"""Create the table of the outbox."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies = ()
    operations = (
        migrations.CreateModel(
            name="OutboxRow",
            fields=[
                ("seq", models.BigAutoField(primary_key=True, serialize=False)),
                ("txn", models.CharField(max_length=32)),
                ("job_id", models.CharField(max_length=64)),
                ("format", models.SmallIntegerField()),
                ("body", models.BinaryField()),
                ("created_ms", models.BigIntegerField()),
                ("token", models.CharField(max_length=32)),
                ("lease_until_ms", models.BigIntegerField()),
                ("error", models.TextField(null=True)),
            ],
            options={
                "verbose_name": "job in the outbox",
                "verbose_name_plural": "jobs in the outbox",
                "db_table": "jqmaster_outbox",
                "indexes": [models.Index(fields=["txn", "seq"], name="jqmaster_outbox_txn_seq")],
            },
        ),
    )
