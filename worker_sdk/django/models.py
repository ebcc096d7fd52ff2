"""The table of the outbox."""

from django.db import models


class OutboxRow(models.Model):
    """A job that waits for its push. It has the same columns as `worker_sdk.outbox.sqlalchemy.outbox_table`."""

    seq = models.BigAutoField(primary_key=True)
    txn = models.CharField(max_length=32)
    job_id = models.CharField(max_length=64)
    format = models.SmallIntegerField()
    body = models.BinaryField()
    created_ms = models.BigIntegerField()
    token = models.CharField(max_length=32)
    lease_until_ms = models.BigIntegerField()
    error = models.TextField(null=True)

    class Meta:
        db_table = "jqmaster_outbox"
        indexes = (models.Index(fields=["txn", "seq"], name="jqmaster_outbox_txn_seq"),)
        verbose_name = "job in the outbox"
        verbose_name_plural = "jobs in the outbox"
        # The web UI checks these permissions. They are here because Django attaches every permission to a model.
        permissions = (
            ("view_jobs", "Can see jobs"),
            ("operate_jobs", "Can change jobs, constraints and workers"),
            ("administer_jobs", "Can do everything with jobs"),
        )

    def __str__(self) -> str:
        return str(self.job_id)
