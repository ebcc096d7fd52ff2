"""Add the permissions that the web UI checks."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = (("jqmaster", "0001_outbox"),)
    operations = (
        migrations.AlterModelOptions(
            name="outboxrow",
            options={
                "verbose_name": "job in the outbox",
                "verbose_name_plural": "jobs in the outbox",
                "permissions": (
                    ("view_jobs", "Can see jobs"),
                    ("operate_jobs", "Can change jobs, constraints and workers"),
                    ("administer_jobs", "Can do everything with jobs"),
                ),
            },
        ),
    )
