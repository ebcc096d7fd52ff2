"""Settings over HTTP."""

from typing import Any

from jqmaster.api.endpoint import Call, Reply
from jqmaster.api.wire import read_map
from jqmaster.service.live_settings import LiveSettings, SettingView


async def list_settings(call: Call) -> Reply:
    call.query()
    return Reply(200, _document(call.services.live))


async def change(call: Call) -> Reply:
    call.query()
    # Not by a model: what a setting may be is told by the settings themselves, and with better words.
    changes = read_map(await call.body(), limits=call.limits.scan)
    live = call.services.live
    await live.change(changes, call.who)
    return Reply(200, _document(live))


def _document(live: LiveSettings) -> dict[str, Any]:
    views, version = live.view()
    return {"settings": [_setting(view) for view in views], "version": version}


def _setting(view: SettingView) -> dict[str, Any]:
    """`SettingView` of the contract."""
    info = view.info
    return {
        "key": info.key,
        "group": info.group,
        "label": info.label,
        "effect": info.effect,
        "type": info.type,
        "unit": info.unit,
        "value": view.value,
        "default": info.default,
        "minimum": info.minimum,
        "maximum": info.maximum,
        "choices": None if info.choices is None else list(info.choices),
        "is_runtime": info.is_runtime,
        "is_secret": info.is_secret,
        "source": view.source,
    }
