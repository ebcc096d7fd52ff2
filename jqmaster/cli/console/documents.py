"""Documents that a command reads from a file or standard input."""

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

from jqmaster.cli.console import exits


def parsed(file: str) -> Any:
    """Return the data of a TOML or JSON file, or of standard input for `-`. End the command if there are none."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
        return tomllib.loads(text) if file.endswith(".toml") else json.loads(text)
    except OSError as error:
        exits.fail(exits.REFUSED, f"cannot read {error.filename}: {error.strerror}")
    except (ValueError, RecursionError) as error:
        exits.fail(exits.REFUSED, f"{file} is neither TOML (by its name *.toml) nor JSON: {error}")


def document_in(file: str) -> dict[str, Any]:
    """Return the document of a file, as `parsed` does. End the command if the file holds another value."""
    data = parsed(file)
    if not isinstance(data, dict):
        exits.fail(exits.REFUSED, f"{file} is no map")
    return data
