"""All settings of a master, and the rules between them."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from jqmaster.config.dispatch import DispatchSettings
from jqmaster.config.limits import ENVELOPE_BYTES, LimitSettings
from jqmaster.config.logins import LoginSettings
from jqmaster.config.outbound import OutboundSettings
from jqmaster.config.retention import RetentionSettings
from jqmaster.config.stores import DEFAULT_STORE, STORE_OPTIONS, DefaultStoreSettings
from jqmaster.config.telemetry import TelemetrySettings


class Settings(
    # The documents begin with the fields of the last base class.
    TelemetrySettings,
    RetentionSettings,
    OutboundSettings,
    DispatchSettings,
    LimitSettings,
    DefaultStoreSettings,
    LoginSettings,
    BaseSettings,
):
    """Settings of a master. Sources in the order of precedence: arguments, environment (`JQMASTER_PORT=9000`),
    the TOML file that `JQMASTER_CONFIG` names, defaults."""

    model_config = SettingsConfigDict(
        env_prefix="JQMASTER_",
        env_nested_delimiter="__",
        frozen=True,
        extra="forbid",
        validate_default=True,
        env_ignore_empty=True,
    )

    @model_validator(mode="after")
    def _obeys_rules(self) -> "Settings":
        for rule in RULES:
            if not rule.holds(self):
                raise ValueError(rule.text)
        return self

    def at_store(self, name: str, shard: str) -> "Settings":
        """Return these settings as if the store `name` were the only one, and `shard` the only shard in it. Raise
        KeyError if no store has this name."""
        options = (
            {} if name == DEFAULT_STORE else {key: getattr(self.stores[name], key) for key in STORE_OPTIONS}
        )
        return self.model_copy(update={**options, "shard": shard})

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        sources: list[PydanticBaseSettingsSource] = [init_settings, env_settings]
        if path := os.environ.get("JQMASTER_CONFIG"):
            sources.append(TomlConfigSettingsSource(settings_cls, toml_file=Path(path)))
        return tuple(sources)


class Rule(NamedTuple):
    """A condition between settings.
    * `fields`: the names of the settings that the condition compares.
    * `fitted`: returns values with which the condition holds, if it is enough to lower one value to the largest
      allowed value. They replace values that an older release accepted.
    """

    fields: tuple[str, ...]
    holds: Callable[[Settings], bool]
    text: str
    fitted: Callable[[Settings], Mapping[str, int]] | None = None


def _fits_into_body(key: str, content: str) -> Rule:
    """Return the rule that a body of the maximum size can contain the largest `content`."""
    return Rule(
        (key, "max_body_bytes"),
        lambda s: getattr(s, key) + ENVELOPE_BYTES <= s.max_body_bytes,
        f"{key} must be at least {ENVELOPE_BYTES} bytes less than max_body_bytes, because a body carries more than "
        f"{content}: lower {key} or raise max_body_bytes",
        lambda s: {key: s.max_body_bytes - ENVELOPE_BYTES},
    )


def _is_part_of(key: str, whole: str) -> Rule:
    """Return the rule that the part must not be larger than the whole."""
    return Rule(
        (key, whole),
        lambda s: getattr(s, key) <= getattr(s, whole),
        f"{key} must not be larger than {whole}: lower {key} or raise {whole}",
        lambda s: {key: getattr(s, whole)},
    )


# The conditions between settings. `fields` names the settings of a condition, so that the refusal of a change at
# run time can name the inconsistent settings.
RULES: Final = (
    Rule(
        ("offer_ms", "lease_ms"),
        lambda s: s.offer_ms * 2 <= s.lease_ms,
        "offer_ms must be at most half of lease_ms: a late acceptance must still leave time to renew the lease",
    ),
    Rule(
        ("lease_ms", "heartbeat_interval_s"),
        lambda s: s.heartbeat_interval_s * 3000 <= s.lease_ms,
        "lease_ms must be at least three times heartbeat_interval_s: raise lease_ms or lower heartbeat_interval_s",
    ),
    Rule(
        ("worker_stale_s", "heartbeat_interval_s"),
        lambda s: s.heartbeat_interval_s * 2 <= s.worker_stale_s,
        "worker_stale_s must be at least two times heartbeat_interval_s, or workers count as silent between two "
        "heartbeats: raise worker_stale_s or lower heartbeat_interval_s",
    ),
    Rule(
        ("worker_forget_s", "heartbeat_interval_s"),
        lambda s: s.heartbeat_interval_s * 3 <= s.worker_forget_s,
        "worker_forget_s must be at least three times heartbeat_interval_s, or idle workers are forgotten between two "
        "heartbeats: raise worker_forget_s or lower heartbeat_interval_s",
    ),
    Rule(
        ("breaker_first_open_s", "breaker_longest_open_s"),
        lambda s: s.breaker_first_open_s <= s.breaker_longest_open_s,
        "breaker_first_open_s must not be longer than breaker_longest_open_s",
    ),
    _fits_into_body("max_argument_bytes", "its argument"),
    _fits_into_body("max_event_bytes", "a payload"),
    _is_part_of("max_log_line_bytes", "max_log_bytes"),
    _is_part_of("max_log_bytes", "max_logs_bytes"),
)
