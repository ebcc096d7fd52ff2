"""Describes each setting for people: its group, unit and range, and whether it can change at run time."""

import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Union, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from jqmaster.config import Settings, StoreSettings
from jqmaster.domain.identity.access import Scope
from jqmaster.service.operations.setting_labels import label_of

SettingType = Literal["integer", "number", "boolean", "text", "list", "choice"]

# The groups of settings, in the order in which they are shown.
GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "Leases and dispatch": (
        "lease_ms", "offer_ms", "heartbeat_interval_s", "push_timeout_s", "max_push_jobs", "timeout_grace_s",
        "max_losses", "alone_wait_s",
    ),
    "Silent workers": (
        "worker_stale_s", "ping_timeout_s", "max_missed_pings", "crowd_share", "crowd_least", "worker_forget_s",
        "continue_questions", "continue_pause_s", "breaker_failures", "breaker_first_open_s", "breaker_longest_open_s",
    ),
    "Masters": ("leader_ttl_s", "loop_watchdog_s", "processes", "node_id", "advertised_url"),
    "Retention": (
        "retention_succeeded_s", "retention_succeeded_max", "retention_failed_s", "retention_failed_max",
        "retention_logs_s", "log_archive_wait_s",
        "batch_life_s", "batch_retention_s", "definition_runs_max", "definition_runs_s", "event_dedupe_s",
        "events_max", "events_s",
        "result_ttl_s", "result_grace_s",
    ),
    "Limits of a request": (
        "check_arguments",
        "max_body_bytes", "max_argument_bytes", "max_result_bytes",
        "max_parts", "max_parts_bytes",
        "max_log_line_bytes", "max_log_bytes", "max_logs_bytes", "max_nesting", "max_argument_nodes",
        "max_bulk_jobs", "max_header_bytes", "max_header_count", "max_connections", "unproven_share",
        "address_share", "max_intake_bytes", "max_streams", "previews_per_minute", "max_definitions",
        "max_namespaces", "namespace_quotas", "max_event_bytes",
        "receipt_deadline_s", "write_deadline_s",
    ),
    "Access": (
        "viewers_see_content", "redact_paths", "session_life_s", "session_idle_s", "login_attempts_per_minute",
        "failed_registrations_per_minute", "stale_tokens_s",
    ),
    "Logs": ("log_level", "log_format", "audit_export"),
    "Archive of job logs": (
        "log_archive_url", "log_archive_endpoint", "log_archive_cafile", "log_archive_region", "log_archive_key_id",
        "log_archive_secret",
    ),
    "Traces": ("traces_endpoint",),
    "Where it listens": (
        "host", "port", "allowed_hosts", "tokens", "tokens_file", "tls_certfile", "tls_keyfile",
        "tls_client_cafile", "calls_cafile", "calls_certfile", "calls_keyfile",
        "allowed_worker_networks", "public_url", "trusted_proxies", "hsts_s", "linger_s", "target_grace_s",
    ),
    "Webhooks": ("webhook_secrets", "allowed_webhook_networks"),
    "Fireworq": ("fireworq_prefix", "fireworq_default_queue", "fireworq_networks", "fireworq_hosts"),
    "Links": ("link_templates",),
    "Mail": ("smtp_url", "smtp_cafile", "mail_from", "mail_to"),
    "Login elsewhere": (
        "oidc_issuer", "oidc_client_id", "oidc_client_secret", "oidc_client_secret_file", "oidc_cafile",
        "oidc_scopes", "oidc_user_claim", "oidc_groups_claim", "oidc_label", "login_user_header",
        "login_groups_header", "login_proxies", "login_proxy_secret", "proxy_login_url", "proxy_logout_url",
        "group_roles", "default_role",
    ),
    "Store": (
        "redis_url", "redis_cafile", "redis_certfile", "redis_keyfile", "sentinel_username", "sentinel_password",
        "stores", "data_dir", "shard", "durability", "declare_durability", "quorum_replicas", "store_timeout_s",
        "store_connections",
    ),
}  # fmt: skip
# The groups with settings that can change at run time. The settings of the other groups are read only at the start:
# addresses, files, credentials, durability and connection options.
RUNTIME_GROUPS: Final = (
    "Leases and dispatch",
    "Silent workers",
    "Retention",
    "Limits of a request",
    "Access",
    "Logs",
)
RUNTIME: Final = frozenset({"leader_ttl_s", *(key for group in RUNTIME_GROUPS for key in GROUPS[group])}) - {
    "log_format",
    "audit_export",
}
# Settings that limit how much stays in the store, and for how long. Namespaces share the memory of a store. So a
# namespace may lower these values, but not raise them above those of the installation.
LOWERED_ONLY: Final = frozenset(
    {*GROUPS["Retention"], "max_log_line_bytes", "max_log_bytes", "max_logs_bytes", "max_definitions"}
)
# Settings for which a namespace may have its own values, because they affect only its jobs, workers and data. Other
# settings concern what all namespaces of a master share, or are limited by a quota of each namespace.
OVERRIDABLE: Final = LOWERED_ONLY | {
    "check_arguments",
    *(
        key
        for group in ("Leases and dispatch", "Silent workers")
        for key in GROUPS[group]
        # Exclude these: one client sends pushes to the workers of all namespaces, and moves rely on the heartbeat
        # interval of the installation.
        if key not in ("push_timeout_s", "heartbeat_interval_s")
    ),
}
OTHER_GROUP: Final = "Other"
# The group of settings that decide who gets access and who sees job content. Only admins may change these settings, and
# the access log records the changes.
ACCESS_GROUP: Final = "Access"
# Further settings that only admins may change, because they protect resources that all callers share.
PROTECTIONS: Final = frozenset(
    {"unproven_share", "max_connections", "previews_per_minute", "max_body_bytes", "namespace_quotas"}
)
# Settings that reveal the layout of the machine or its network. Every setting with a file path also does.
_INTERNAL: Final = frozenset(
    {
        "allowed_hosts",
        "allowed_webhook_networks",
        "allowed_worker_networks",
        "audit_export",
        "fireworq_hosts",
        "fireworq_networks",
        "group_roles",
        "link_templates",
        "log_archive_endpoint",
        "log_archive_region",
        "log_archive_url",
        "login_groups_header",
        "login_proxies",
        "login_user_header",
        "mail_from",
        "mail_to",
        "oidc_client_id",
        "oidc_issuer",
        "sentinel_username",
        "traces_endpoint",
        "trusted_proxies",
    }
)

_UNITS: Final = {"_ms": "ms", "_s": "s", "_bytes": "bytes"}


@dataclass(frozen=True, slots=True)
class SettingInfo:
    """One setting.

    * `minimum`, `maximum`: allowed values themselves. With `is_above_minimum`, `minimum` is not allowed.
    * `default`: None for a secret.
    * `change_scope`: the scope that a caller needs to change the setting at run time. None: nobody may change it.
    * `is_internal`: whether the setting is hidden from callers that have only the scope `read`.
    """

    key: str
    group: str
    label: str
    effect: str
    type: SettingType
    unit: str | None
    default: Any
    minimum: float | None
    maximum: float | None
    is_above_minimum: bool
    choices: tuple[str, ...] | None
    is_runtime: bool
    is_secret: bool
    change_scope: Scope | None
    is_internal: bool


def plain(value: Any) -> Any:
    """Return the value of a setting in a form that JSON can hold. Do not use this for secrets."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _info(key: str, group: str, field: FieldInfo) -> SettingInfo:
    bounds = {
        word: getattr(m, word)
        for m in field.metadata
        for word in ("ge", "gt", "le", "lt")
        if hasattr(m, word)
    }
    kind, choices = _type_of(field.annotation)
    suffix, unit = next(((s, u) for s, u in _UNITS.items() if key.endswith(s)), ("", None))
    is_secret = _holds_secret(field.annotation)
    return SettingInfo(
        key=key,
        group=group,
        label=label_of(key, suffix),
        effect=field.description or "",
        type=kind,
        unit=unit,
        default=None if is_secret else plain(field.get_default(call_default_factory=True)),
        minimum=bounds.get("ge", bounds.get("gt")),
        maximum=bounds.get("le", bounds.get("lt")),
        is_above_minimum="gt" in bounds,
        choices=choices,
        is_runtime=key in RUNTIME,
        is_secret=is_secret,
        change_scope=_change_scope(key, group),
        is_internal=key in _INTERNAL or Path in _parts(field.annotation),
    )


def _change_scope(key: str, group: str) -> Scope | None:
    if key not in RUNTIME:
        return None
    return Scope.ADMIN if group == ACCESS_GROUP or key in PROTECTIONS else Scope.OPERATE


def _parts(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union type, without None."""
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(arg for arg in get_args(annotation) if arg is not type(None))
    return (annotation,)


def _type_of(annotation: Any) -> tuple[SettingType, tuple[str, ...] | None]:
    (part, *_) = _parts(annotation)
    if get_origin(part) is Literal:
        return "choice", get_args(part)
    if get_origin(part) is list:
        return "list", None
    kinds: dict[Any, SettingType] = {bool: "boolean", int: "integer", float: "number"}
    return kinds.get(part, "text"), None


def _holds_secret(annotation: Any) -> bool:
    return any(
        part is SecretStr or SecretStr in get_args(part) or StoreSettings in get_args(part)
        for part in _parts(annotation)
    )


def _catalog() -> dict[str, SettingInfo]:
    fields = Settings.model_fields
    grouped = {key: group for group, keys in GROUPS.items() for key in keys if key in fields}
    left = {key: OTHER_GROUP for key in fields if key not in grouped}
    return {key: _info(key, group, fields[key]) for key, group in {**grouped, **left}.items()}


CATALOG: Final = _catalog()
