"""Settings over HTTP."""

from collections.abc import Mapping
from typing import Any

from jqmaster.api.encoding.envelopes import read_map
from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.domain.identity.access import Scope
from jqmaster.errors import FieldError, ForbiddenError
from jqmaster.service.operations.live_settings import LiveSetting
from jqmaster.service.operations.settings_catalog import CATALOG, OVERRIDABLE


async def list_settings(call: Call) -> Reply:
    call.query()
    return Reply(200, _document(call))


async def change(call: Call) -> Reply:
    call.query()
    # Do not validate the changes with a model. The settings check their values themselves, and report faults more
    # clearly.
    changes = read_map(await call.body(), limits=call.limits.scan)
    _check_scope(call, changes)
    await call.services.live.change(changes, call.who)
    return Reply(200, _document(call))


def _check_scope(call: Call, changes: Mapping[str, Any]) -> None:
    """Raise a ForbiddenError that names each setting that the caller may not change."""
    needed = {key: info.change_scope for key in changes if (info := CATALOG.get(key))}
    refused = [key for key, scope in needed.items() if scope and not call.may(scope)]
    if refused:
        raise ForbiddenError(
            "only an admin may change these settings, which control access and protect the master",
            code="admin_only",
            errors=[FieldError((key,), f"requires the scope {needed[key]}") for key in refused],
        )


def _document(call: Call) -> dict[str, Any]:
    views, version = call.services.live.view()
    may_see_all = call.may(Scope.OPERATE)
    return {"settings": [_setting(view, may_see_all=may_see_all) for view in views], "version": version}


def _setting(view: LiveSetting, *, may_see_all: bool) -> dict[str, Any]:
    """Return a `SettingView`."""
    info = view.info
    is_hidden = info.is_internal and not may_see_all
    return {
        "key": info.key,
        "group": info.group,
        "label": info.label,
        "effect": info.effect,
        "type": info.type,
        "unit": info.unit,
        "value": None if is_hidden else view.value,
        "default": info.default,
        "minimum": info.minimum,
        "maximum": info.maximum,
        "choices": None if info.choices is None else list(info.choices),
        "is_runtime": info.is_runtime,
        "is_secret": info.is_secret,
        "is_hidden": is_hidden,
        "is_overridable": info.key in OVERRIDABLE,
        "change_scope": str(info.change_scope) if info.change_scope and view.is_settable else None,
        "source": view.source,
        "reset_value": None if is_hidden else view.reset_value,
    }
