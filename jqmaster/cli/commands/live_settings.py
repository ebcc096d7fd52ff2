"""Commands about the settings of running masters."""

import json
from typing import Annotated, Any, Final

import typer

from jqmaster.cli.console.documents import json_or_text, pairs_of
from jqmaster.cli.console.groups import CommandGroup
from jqmaster.cli.console.http import MasterSession

app = CommandGroup()
# The origins of values that a reset removes: they were set at run time, for the installation or for the namespace.
_CHANGED: Final = ("runtime", "namespace")


@app.listing("The settings of running masters")
def list_settings(
    http: MasterSession,
    *,
    changed: Annotated[
        bool,
        typer.Option(
            "--changed", help="List only settings that were changed at run time or in the namespace."
        ),
    ] = False,
) -> None:
    """List the settings in force, and the origin of each."""
    answer = http.get("/api/settings")
    shown = [s for s in answer["settings"] if s["source"] in _CHANGED or not changed]
    http.show_list(
        shown,
        ("NAME", "VALUE", "DEFAULT", "RANGE", "SOURCE", "RUN TIME"),
        lambda s: (s["key"], _text(s, "value"), _text(s, "default"), _range(s), s["source"],
            "yes" if s["change_scope"] else "installation" if s["is_runtime"] else ""),
    )  # fmt: skip


@app.command("set")
def set_settings(
    http: MasterSession,
    pairs: Annotated[
        list[str],
        typer.Argument(metavar="NAME=VALUE…", help="Settings to change. Either all changes apply, or none."),
    ],
) -> None:
    """Change settings on all masters within a second. In a namespace, override the settings of the installation.

    Write a list as JSON: 'NAME=["a", "b"]'.
    """
    _change(http, {key: json_or_text(text) for key, text in pairs_of(pairs, "setting").items()})


@app.command()
def reset(
    http: MasterSession,
    keys: Annotated[
        list[str], typer.Argument(metavar="NAME…", help="Names of settings, as in docs/config.md.")
    ],
) -> None:
    """Reset settings to the configured values. In a namespace, reset them to the values of the installation."""
    _change(http, dict.fromkeys(keys))


def _change(http: MasterSession, changes: dict[str, Any]) -> None:
    _, answer = http.call("PATCH", "/api/settings", body=changes)
    for one in answer["settings"]:
        if one["key"] in changes:
            http.say(one, f"{one['key']}  {_text(one, 'value')}  ({one['source']})")


def _text(setting: dict[str, Any], field: str) -> str:
    if setting["is_secret"]:
        return "(secret)"
    if setting["is_hidden"]:
        return "(hidden)"
    value = setting[field]
    if value is None:
        return ""
    if isinstance(value, list):
        return " ".join(map(str, value))
    if isinstance(value, bool):
        return json.dumps(value)
    return f"{value} {setting['unit']}" if setting["unit"] else str(value)


def _range(setting: dict[str, Any]) -> str:
    if setting["choices"]:
        return "|".join(setting["choices"])
    low, high = setting["minimum"], setting["maximum"]
    return "" if low is None and high is None else f"{_bound(low)}…{_bound(high)}"


def _bound(value: float | None) -> str:
    return "" if value is None else f"{value:g}" if abs(value) < 1e6 else f"{value:.0f}"
