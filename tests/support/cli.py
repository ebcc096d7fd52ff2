"""`jqmaster` commands as people run them, each in its own process."""

import asyncio
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import prepared


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str

    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("JQMASTER_")}


def jqmaster(*arguments: object, stdin: str = "", cwd: Path | None = None, **environment: str) -> Outcome:
    """Run a command to its end."""
    command = ["-m", "jqmaster", *map(str, arguments)]
    done = prepared.run(command, stdin=stdin, cwd=cwd, env=clean_environment() | environment)
    return Outcome(done.returncode, done.stdout, done.stderr)


class Cli:
    """Commands to one master from within its event loop, with a directory for their files."""

    def __init__(self, url: str, directory: Path) -> None:
        self._url = url
        self.directory = directory

    async def __call__(self, *arguments: object, stdin: str = "") -> Outcome:
        return await asyncio.to_thread(jqmaster, *arguments, stdin=stdin, JQMASTER_URL=self._url)

    def file(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.write_text(text)
        return path
