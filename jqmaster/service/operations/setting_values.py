"""Checks the values of settings, and applies changes to them."""

import math
from collections.abc import Mapping
from typing import Any

from jqmaster.errors import FieldError, InvalidError
from jqmaster.service.operations.settings_catalog import CATALOG, SettingInfo, plain
from worker_sdk.transport.suggestions import suggestion


def changed_values(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with the changes on top. A change to None removes a value."""
    changed = {**values, **{key: plain(value) for key, value in changes.items()}}
    return {key: value for key, value in changed.items() if value is not None}


def nearest_value(info: SettingInfo, value: Any) -> Any:
    """Return the number within the bounds that is nearest to `value`. Return any other value unchanged."""
    if (
        info.type not in ("integer", "number")
        or not isinstance(value, int | float)
        or isinstance(value, bool)
    ):
        return value
    if info.minimum is not None and not info.is_above_minimum and value < info.minimum:
        return info.minimum
    return info.maximum if info.maximum is not None and value > info.maximum else value


def check_each(changes: Mapping[str, Any], settable: Mapping[str, SettingInfo]) -> None:
    """Check each change by itself. Raise InvalidError, which names each change that is not possible. `settable`: the
    settings that can change here, with the bounds that apply here."""
    faults = []
    for key, value in changes.items():
        info = CATALOG.get(key)
        if info is None:
            fault: str | None = f"there is no such setting{suggestion(key, settable)}"
        elif not info.is_runtime:
            fault = (
                "this setting is read when a master starts; change the master's configuration, and restart it"
            )
        elif key not in settable:
            fault = (
                "this setting holds in all namespaces; change it for the installation, without a namespace"
            )
        else:
            fault = None if value is None else fault_of(settable[key], value)
            if fault and settable[key] != info and fault_of(info, value) is None:
                fault += ", as at the installation, because namespaces share the memory of a store"
        if fault:
            faults.append(FieldError((key,), fault))
    if faults:
        raise InvalidError("the settings are not valid", errors=faults)


def fault_of(info: SettingInfo, value: Any) -> str | None:
    """Return the fault of a single value, or None if the value is valid."""
    match info.type:
        case "integer" if isinstance(value, bool) or not isinstance(value, int):
            return "must be an integer"
        case "number" if isinstance(value, bool) or not isinstance(value, int | float):
            return "must be a number"
        case "number" if not math.isfinite(value):
            return "must be finite"
        case "boolean" if not isinstance(value, bool):
            return "must be true or false"
        case "text" if not isinstance(value, str):
            return "must be text"
        case "list" if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            return "must be a list of texts"
        case "choice" if not isinstance(value, str) or value not in (info.choices or ()):
            return f"must be one of {', '.join(info.choices or ())}"
    if info.type in ("integer", "number"):
        low, high = info.minimum, info.maximum
        if low is not None and (value <= low if info.is_above_minimum else value < low):
            return f"must be {'more than' if info.is_above_minimum else 'at least'} {low}"
        if high is not None and value > high:
            return f"must be at most {high}"
    return None
