"""Commands about the settings of running masters."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.groups import list_without_command
from jqmaster.cli.console.http import DEFAULT_MASTER, JsonOption, MasterOption, MasterSession, TokenOption

app = typer.Typer(invoke_without_command=True)


@app.command("list")
def list_settings(
    *,
    changed: Annotated[
        bool, typer.Option("--changed", help="List only settings that were changed at run time.")
    ] = False,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the settings in force, and the origin of each."""
    with MasterSession(master, token) as http:
        _, answer = http.call("GET", "/api/settings")
    shown = [s for s in answer["settings"] if s["source"] == "runtime" or not changed]
    output.show_list(
        shown,
        ("NAME", "VALUE", "DEFAULT", "RANGE", "SOURCE", "RUN TIME"),
        lambda s: (s["key"], _text(s, "value"), _text(s, "default"), _range(s), s["source"],
            "yes" if s["is_runtime"] else ""),
        as_json=as_json,
    )  # fmt: skip


list_without_command(app, list_settings, "The settings of running masters")


@app.command("set")
def set_settings(
    pairs: Annotated[
        list[str],
        typer.Argument(metavar="NAME=VALUE…", help="Settings to change. All changes apply, or none."),
    ],
    *,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change settings on all masters within a second. A list is written as JSON: 'NAME=["a", "b"]'."""
    changes: dict[str, Any] = {}
    for pair in pairs:
        key, sign, text = pair.partition("=")
        if not sign:
            exits.fail(exits.USAGE, f"{pair}: expected NAME=VALUE")
        changes[key] = _value(text)
    _change(master, token, changes, as_json=as_json)


@app.command()
def reset(
    keys: Annotated[
        list[str], typer.Argument(metavar="NAME…", help="Names of settings, as in docs/config.md.")
    ],
    *,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Revert settings to the configured values."""
    _change(master, token, dict.fromkeys(keys), as_json=as_json)


def _change(master: str, token: Path | None, changes: dict[str, Any], *, as_json: bool) -> None:
    with MasterSession(master, token) as http:
        _, answer = http.call("PATCH", "/api/settings", body=changes)
    for one in answer["settings"]:
        if one["key"] in changes:
            if as_json:
                output.say_json(one)
            else:
                output.say(f"{one['key']}  {_text(one, 'value')}  ({one['source']})")


def _value(text: str) -> Any:
    """Return the value as JSON if it is valid JSON, otherwise as text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


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
