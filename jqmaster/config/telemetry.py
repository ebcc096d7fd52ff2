"""Traces, and the log of the master."""

import re
from typing import Literal

from pydantic import Field, field_validator

from jqmaster.config.values import SettingsBase, Words

_REDACT_PATH = re.compile(r"(argument|result|error|headers)(\.[^.\s]{1,200}){1,16}")


class TelemetrySettings(SettingsBase):
    """Traces, redaction, and the log of the master."""

    traces_endpoint: str | None = Field(
        None,
        pattern=r"^https?://[^\s?#]+$",
        description=(
            "Address of the OpenTelemetry collector that receives the spans by OTLP over HTTP, such "
            "as `http://127.0.0.1:4318`. Needs the extra `tracing`. Default: no traces."
        ),
    )

    redact_paths: Words = Field(
        default_factory=list,
        max_length=100,
        description=(
            "Parts of job content that nobody can see, such as `argument.password`, "
            "`result.*.token`, `argument.**.pin`, `error.message` and `headers.authorization`. "
            "Workers, and clients that fetch a result, still receive everything."
        ),
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info",
        description=(
            "Lowest level to log. `debug` also logs each step of a job in this master, the reasons "
            "of refused requests, and each new connection to the store."
        ),
    )
    log_format: Literal["console", "json"] = Field(
        "console", description="Format of log lines: readable text, or one JSON object per line."
    )

    @field_validator("redact_paths")
    @classmethod
    def _are_paths(cls, paths: list[str]) -> list[str]:
        for path in paths:
            if not _REDACT_PATH.fullmatch(path) or path.endswith(".**") or path.count("**") > 1:
                raise ValueError(
                    f"{path[:100]}: expected argument, result, error or headers, followed by keys, each after a dot; "
                    "** may occur only once, and not at the end"
                )
        return paths
