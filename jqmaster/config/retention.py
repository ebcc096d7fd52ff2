"""The times for which jobs and their logs are kept, and the archive of logs."""

from pathlib import Path

from pydantic import Field, SecretStr, model_validator

from jqmaster.config.values import DAY_S, MAX_KEPT_JOBS, MAX_KEPT_S, SettingsBase


class RetentionSettings(SettingsBase):
    """Retention, and the archive of job logs."""

    retention_succeeded_s: float = Field(
        3600,
        ge=0,
        le=MAX_KEPT_S,
        description=(
            "Time for which to keep succeeded, discarded, canceled and skipped jobs. Jobs that a "
            "retry of a flow or batch would need are kept longer."
        ),
    )
    retention_succeeded_max: int = Field(
        100_000,
        ge=0,
        le=MAX_KEPT_JOBS,
        description=(
            "Maximum number of jobs to keep in each of the states succeeded, discarded, canceled "
            "and skipped. Jobs that a retry of a flow or batch would need do not count."
        ),
    )
    retention_failed_s: float = Field(
        30 * DAY_S, ge=0, le=MAX_KEPT_S, description="How long to keep failed jobs."
    )
    retention_failed_max: int = Field(
        100_000,
        ge=0,
        le=MAX_KEPT_JOBS,
        description=(
            "Maximum number of failed jobs to keep. The same limit applies, in each other state, to "
            "jobs that are kept because a retry of a flow or batch would need them. The oldest jobs "
            "are removed first."
        ),
    )
    retention_logs_s: float = Field(
        7 * DAY_S,
        ge=0,
        le=MAX_KEPT_S,
        description=(
            "Time for which to keep log lines of jobs in the store, counted from a job's newest "
            "line. If the job is removed earlier, its lines are removed, too. With "
            "`log_archive_url`, the lines are moved to the archive instead."
        ),
    )
    log_archive_wait_s: float = Field(
        7 * DAY_S,
        ge=0,
        le=MAX_KEPT_S,
        description=(
            "Additional time for which to keep log lines of jobs while the archive does not accept "
            "them. After that, the lines are removed."
        ),
    )
    definition_runs_max: int = Field(
        1_000,
        ge=1,
        le=100_000,
        description="Maximum number of run records to keep of each definition. The oldest are removed first.",
    )
    definition_runs_s: float = Field(
        90 * DAY_S,
        ge=60,
        le=MAX_KEPT_S,
        description="How long to keep run records of definitions, counted from when they were written.",
    )
    batch_life_s: float = Field(
        30 * DAY_S,
        ge=60,
        le=MAX_KEPT_S,
        description="If a batch without expires_at is not complete after this time, it is canceled.",
    )
    batch_retention_s: float = Field(
        7 * DAY_S, ge=60, le=MAX_KEPT_S, description="How long to keep complete batches."
    )
    event_dedupe_s: float = Field(
        DAY_S,
        ge=1,
        le=30 * DAY_S,
        description=(
            "Time for which the key of an event is remembered. A repeated event within this time "
            "starts nothing."
        ),
    )
    events_max: int = Field(
        10_000,
        ge=1,
        le=1_000_000,
        description="Maximum number of events to keep for operators. The oldest are removed first.",
    )
    events_s: float = Field(
        7 * DAY_S, ge=60, le=MAX_KEPT_S, description="How long to keep events for operators."
    )
    result_ttl_s: float = Field(
        DAY_S, ge=0, le=MAX_KEPT_S, description="How long to keep a result that nobody fetches."
    )
    result_grace_s: float = Field(
        60,
        ge=0,
        le=MAX_KEPT_S,
        description=(
            "Time for which a result can be fetched again after it was first fetched. After that, "
            "it is deleted."
        ),
    )
    log_archive_url: str | None = Field(
        None,
        pattern=r"^(file:///[^?#\s]+|s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^?#\s]*)?)$",
        description=(
            "Archive to which logs of jobs are moved after `retention_logs_s`, or when the job is "
            "removed. It is a directory that all masters share, such as `file:///srv/job-logs`, or "
            "S3-compatible storage, such as `s3://bucket/prefix`. Needs `jqmaster[archive]`. "
            "Default: no archive."
        ),
    )
    log_archive_endpoint: str | None = Field(
        None,
        pattern=r"^https?://[^/?#@\s]+/?$",
        description=(
            "Address of S3-compatible storage other than Amazon's, such as `https://minio.example:9000`."
        ),
    )
    log_archive_cafile: Path | None = Field(
        None,
        description="CA certificates (PEM) that sign the certificate of `log_archive_endpoint`. The system's CA "
        "certificates stay trusted.",
    )
    log_archive_region: str | None = Field(
        None, min_length=1, max_length=100, description="Region of the bucket of `log_archive_url`."
    )
    log_archive_key_id: SecretStr | None = Field(
        None,
        description="Access key ID for `log_archive_url`, with `log_archive_secret`. Default: the credentials of the "
        "environment, such as `AWS_ACCESS_KEY_ID` or the role of the machine.",
    )
    log_archive_secret: SecretStr | None = Field(
        None, description="Secret access key of `log_archive_key_id`."
    )

    @model_validator(mode="after")
    def _has_whole_archive(self) -> "RetentionSettings":
        if fault := self._archive_fault():
            raise ValueError(fault)
        return self

    def _archive_fault(self) -> str | None:
        if (self.log_archive_key_id is None) != (self.log_archive_secret is None):
            return "set both log_archive_key_id and log_archive_secret, or neither"
        if not (self.log_archive_url or "").startswith("s3://"):
            for name in (
                "log_archive_endpoint",
                "log_archive_cafile",
                "log_archive_region",
                "log_archive_key_id",
            ):
                if getattr(self, name) is not None:
                    return f"{name} requires a log_archive_url that begins with s3"
        return None
