"""Read values that a command gets as JSON or TOML from arguments, files or standard input."""

import json
import sys
import tomllib
from collections.abc import Iterable
from datetime import date, time
from pathlib import Path
from typing import Any

from jqmaster.cli.console import exits


def parsed(file: str) -> Any:
    """Return the data of a TOML or JSON file. `-` means standard input. End the command if the text is not valid."""
    text = text_of(file)
    try:
        return _as_json(tomllib.loads(text)) if file.endswith(".toml") else json.loads(text)
    except (ValueError, RecursionError) as error:
        exits.fail(exits.USAGE, f"{file} is neither TOML (by its name *.toml) nor JSON: {error}")


def _as_json(value: Any) -> Any:
    """Return a TOML value with its days and times as texts, because JSON has no such types."""
    if isinstance(value, dict):
        return {key: _as_json(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_as_json(member) for member in value]
    return value.isoformat() if isinstance(value, date | time) else value


def document_in(file: str) -> dict[str, Any]:
    """Return the document in a file, like `parsed`. End the command if the file holds a value other than a map."""
    data = parsed(file)
    if not isinstance(data, dict):
        exits.fail(exits.USAGE, f"{file} is not a map")
    return data


def value_of(text: str, what: str, hint: str = "") -> Any:
    """Return the value of a JSON text. `-` means standard input, and `@FILE` means a file. End the command if the
    text is not JSON. The error text contains `what`, a word for the value, and `hint`."""
    if text == "-" or text.startswith("@"):
        text = text_of(text.removeprefix("@"))
    return json_of(text, what, hint)


def json_of(text: str, what: str, hint: str = "") -> Any:
    """Return the value of a JSON text. End the command if it is not JSON. The error text contains `what`, a word for
    the value, and `hint`."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        exits.fail(exits.USAGE, f"{what} is not JSON ({error}){hint}")


def pairs_of(texts: Iterable[str], what: str) -> dict[str, str]:
    """Return texts of the form NAME=VALUE as a map. End the command if a text has a different form. The error
    text contains `what`, a word for the text."""
    pairs = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not (name and sign):
            exits.fail(exits.USAGE, f"{what} {text}: expected NAME=VALUE")
        pairs[name] = value
    return pairs


def json_or_text(text: str) -> Any:
    """Return the value if the text is JSON, or else the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def text_of(file: str) -> str:
    """Return the text of a file. `-` means standard input. End the command if the text cannot be read."""
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
    except OSError as error:
        exits.fail(exits.USAGE, f"cannot read {error.filename}: {error.strerror}")
    except UnicodeDecodeError:
        exits.fail(exits.USAGE, f"{file} is not text in UTF-8")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
