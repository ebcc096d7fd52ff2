"""Alternative values for settings that fit together."""

from collections.abc import Mapping
from typing import Any

from jqmaster.config import Settings
from jqmaster.service.operations.settings_catalog import CATALOG

# For values where adding half would not work or would break a rule between settings.
_OTHERS: dict[str, Any] = {
    "log_level": "error",
    "check_arguments": "report",
    "crowd_share": 0.7,
    "address_share": 0.5,
    "redact_paths": ["argument.password"],
    "namespace_quotas": ["workers=100"],
    "offer_ms": 600,
}


def other_values(key: str, configured: Mapping[str, Any]) -> dict[str, Any]:
    """Return a value for `key` that differs from the one in force with `configured`, and the settings that must change
    with it."""
    info = CATALOG[key]
    if key in _OTHERS:
        return {key: _OTHERS[key]}
    now = configured.get(key, info.default)
    if info.type == "boolean":
        return {key: not now}
    assert info.type in ("integer", "number"), key
    value = now + max(1, now // 2) if info.type == "integer" else round(now * 1.5 + 0.1, 3)
    if info.maximum is not None and value > info.maximum:
        value = int(info.maximum) // 2
    Settings(**{**configured, key: value})
    return {key: value}
