"""Commands that export an installation as JSON lines, and import such lines into another installation."""

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.http import JsonOption
from jqmaster.cli.console.settings import ConfigOption, DataDirOption, RedisOption, load_settings
from jqmaster.cli.console.stores import shard_at, shard_with_data, url_of

if TYPE_CHECKING:
    from jqmaster.cli.transfer.export_files import CheckedFile
    from jqmaster.cli.transfer.importing import Imported
    from jqmaster.config import Settings

T = TypeVar("T")

# Maximum number of reasons to show. Further reasons appear only in the JSON output.
_MAX_SHOWN: Final = 20
_GO_ON: Final = "The import was interrupted. Run the command again: it continues, and imports nothing twice."


def export(  # noqa: PLR0917 - options of a command
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="File to write; it must not exist. -: standard output.")
    ],
    redis: RedisOption = None,
    data_dir: DataDirOption = None,
    config: ConfigOption = None,
    with_secrets: Annotated[
        bool,
        typer.Option(
            "--with-secrets",
            help="Also write the hashes of passwords and tokens, and the addresses and secrets of notices and targets.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write unfinished jobs, definitions, constraints and other objects as JSON lines, while the system runs.

    Only you get the right to read the file, because it contains the arguments of jobs.
    """
    settings = load_settings(config, redis_url=redis, data_dir=data_dir)
    if str(file) == "-" and with_secrets:
        exits.fail(exits.USAGE, "--with-secrets: name a file, which only you can read, instead of -")
    lines, left_out = _run(_write(settings, file, with_secrets=with_secrets))
    if as_json:
        report = {"file": str(file), "lines": dict(lines), "left_out": dict(left_out)}
        # Print no report on standard output if the exported lines go there.
        output.say_json(report) if str(file) != "-" else None
    elif str(file) != "-":
        output.show_fields([("exported", _objects(lines)), ("left out", _counted(left_out)), ("file", file)])


def import_(  # noqa: PLR0917 - options of a command
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="File of `jqmaster export`. -: standard input.")
    ],
    redis: RedisOption = None,
    data_dir: DataDirOption = None,
    config: ConfigOption = None,
    without_results: Annotated[
        bool,
        typer.Option(
            "--without-results",
            help=(
                "Also import jobs with finished predecessors. Such jobs start without the results of their "
                "predecessors."
            ),
        ),
    ] = False,
    skip_unknown: Annotated[
        bool,
        typer.Option(
            "--skip-unknown",
            help="Skip and count kinds and fields that this version does not know. By default, a file with such parts "
            "is refused.",
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the file, and write nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Import the lines of an export into an installation. Existing objects stay unchanged.

    Every line is checked before anything is written. A second import changes nothing.
    """
    settings = load_settings(config, redis_url=redis, data_dir=data_dir)
    with _opened(file) as stream:
        checked = _checked(stream, skips_unknown=skip_unknown)
        if dry_run:
            _show(checked, None, as_json=as_json)
            return
        done = _run(
            _bring_in(settings, stream, checked, without_results=without_results), if_interrupted=_GO_ON
        )
    _show(checked, done, as_json=as_json)
    if any(one.is_refused for one in done.left_out):
        raise typer.Exit(exits.REFUSED)


async def _write(
    settings: "Settings", file: Path, *, with_secrets: bool
) -> tuple[Counter[str], Counter[str]]:
    from jqmaster import __version__
    from jqmaster.app.policies import job_times
    from jqmaster.cli.transfer.exporting import Exporting

    async with shard_with_data(settings) as shard:
        exporting = Exporting(shard, job_times(settings), version=__version__, has_secrets=with_secrets)
        with _new_file(file) as stream:
            async for line in exporting.run():
                stream.write(line)
    return exporting.lines, +exporting.left_out


async def _bring_in(
    settings: "Settings", stream: IO[bytes], checked: "CheckedFile", *, without_results: bool
) -> "Imported":
    from dataclasses import replace

    from jqmaster.cli.transfer.importing import Importing
    from jqmaster.cli.transfer.installation import Installation
    from jqmaster.store.health import generation

    async with shard_at(url_of(settings), settings) as shard:
        marked = replace(shard, mark=await generation.read(shard) or "")
        parts = Installation(marked, settings)
        return await Importing(parts, without_results=without_results).run(stream, checked)


def _checked(stream: IO[bytes], *, skips_unknown: bool) -> "CheckedFile":
    from jqmaster.cli.transfer.export_files import check
    from jqmaster.cli.transfer.lines import LineError, Unknown

    try:
        return check(stream, Unknown(skips_unknown))
    except LineError as error:
        hint = (
            "\n--skip-unknown skips kinds and fields that this version does not know"
            if error.is_unknown
            else ""
        )
        exits.fail(exits.USAGE, f"nothing was imported:\n{error.text}{hint}")


@contextlib.contextmanager
def _new_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a new file that only its owner can read. If the block fails, the file is deleted."""
    if str(path) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        exits.fail(exits.USAGE, f"{path} cannot be written: {error.strerror}")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink()
        raise


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that the command can read twice. Standard input is first copied to a temporary file."""
    if str(path) == "-":
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
            copy.seek(0)
            yield copy
        return
    try:
        stream = path.open("rb")
    except OSError as error:
        exits.fail(exits.USAGE, f"cannot read {path}: {error.strerror}")
    with stream:
        yield stream


def _run(work: Coroutine[Any, Any, T], *, if_interrupted: str = "") -> T:
    """Run `work`, and return its result. `if_interrupted`: advice for people if the store fails during `work`."""
    from jqmaster.errors import JqmasterError

    try:
        return asyncio.run(work)
    except exits.PASSING as error:
        exits.fail(exits.code_of(error), f"{error.detail}\n{if_interrupted}".rstrip())
    except JqmasterError as error:
        exits.fail(exits.code_of(error), error.detail)


def _show(checked: "CheckedFile", done: "Imported | None", *, as_json: bool) -> None:
    unknown = checked.unknown
    skipped = unknown.kinds + unknown.fields
    if as_json:
        report: dict[str, Any] = {"lines": dict(checked.counts), "skipped": dict(skipped)}
        if done is not None:
            report |= {
                "new": dict(done.new),
                "there": dict(done.there),
                "may_run_again": dict(done.may_run_again),
                "left_out": [
                    {"kind": one.kind, "id": one.id, "reason": one.reason, "is_refused": one.is_refused}
                    for one in done.left_out
                ],
            }
        output.say_json(report)
        return
    if done is None:
        output.show_fields(
            [("valid", _objects(checked.counts)), ("skipped", _counted(skipped) if skipped else "")]
        )
        return
    output.show_fields(
        [
            ("imported", _objects(done.new)),
            ("there already", _objects(done.there)),
            ("may run again", _counted(done.may_run_again) if done.may_run_again else ""),
            ("left out", len(done.left_out) or ""),
            ("skipped as unknown", _counted(skipped) if skipped else ""),
        ]
    )
    for one in done.left_out[:_MAX_SHOWN]:
        output.say(f"  {one.kind} {one.id}: {one.reason}")
    if (more := len(done.left_out) - _MAX_SHOWN) > 0:
        output.say(f"  … and {more} more; --json lists all")


def _objects(counts: "Counter[str]") -> str:
    """Return counts by kind, such as `1 batch, 2 slot rules`."""
    from jqmaster.cli.transfer.lines import PLURALS

    named = {
        (kind if count == 1 else PLURALS[kind]).replace("_", " "): count for kind, count in counts.items()
    }
    return _counted(Counter(named))


def _counted(counts: "Counter[str]") -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "nothing"
