"""Commands that take, check and restore backups."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.http import JsonOption
from jqmaster.cli.console.settings import ConfigOption, DataDirOption, RedisOption, load_settings
from jqmaster.cli.console.stores import shard_at, shard_with_data, url_of

if TYPE_CHECKING:
    from jqmaster.config import Settings
    from jqmaster.service.operations.restoring import Restored, Risk
    from jqmaster.store.backup.files import BackupReader, Manifest

PASSPHRASE_VARIABLE: Final = "JQMASTER_BACKUP_PASSPHRASE"  # noqa: S105 - the name of a variable
_MIN_PASSPHRASE: Final = 8
_MIB: Final = 1024 * 1024

PassphraseOption = Annotated[
    Path | None,
    typer.Option(
        "--passphrase-file",
        help=f"File with the passphrase of the backup. Without it, {PASSPHRASE_VARIABLE} is used. A backup that is "
        "taken with a passphrase is encrypted.",
    ),
]
_Backup = Annotated[Path, typer.Argument(metavar="DIR", help="Directory of the backup.")]


def backup(  # noqa: PLR0917 - options of a command
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Directory to create; it must be new or empty.")
    ],
    redis: RedisOption = None,
    data_dir: DataDirOption = None,
    config: ConfigOption = None,
    passphrase_file: PassphraseOption = None,
    longest_pause_ms: Annotated[
        int,
        typer.Option(
            min=50,
            max=4_000,
            help=(
                "Maximum time in milliseconds for which the store may hold back writes. A backup uses only "
                "as much of it as it needs. The time is shorter than the timeout of masters' calls to the "
                "store."
            ),
        ),
    ] = 2_000,
    as_json: JsonOption = False,
) -> None:
    """Take a backup of all data at one instant, while masters and workers continue."""
    settings = load_settings(config, redis_url=redis, data_dir=data_dir)
    passphrase = _passphrase(passphrase_file)
    made, size = asyncio.run(_take(settings, directory, passphrase, longest_pause_ms))
    if as_json:
        output.say_json({**_facts(made), "directory": str(directory), "bytes": size})
        return
    _show(made)
    output.show_fields([("size", f"{size / _MIB:.1f} MiB"), ("writes paused", f"{made.paused_ms} ms")])


def verify(directory: _Backup, passphrase_file: PassphraseOption = None, as_json: JsonOption = False) -> None:
    """Check every byte of a backup, and print its content. It needs no store."""
    reader = _reader(directory, _passphrase(passphrase_file))
    records = reader.check()
    if as_json:
        output.say_json(
            {**_facts(reader.manifest), "records": records, "content_checked": reader.is_readable}
        )
        return
    _show(reader.manifest)
    if reader.is_readable:
        output.say("every file and every record is intact")
    else:
        output.say(
            "every file is intact; the content was not read, because it is encrypted: give its passphrase"
        )


def restore(  # noqa: PLR0917 - options of a command
    directory: _Backup,
    redis: RedisOption = None,
    data_dir: DataDirOption = None,
    config: ConfigOption = None,
    passphrase_file: PassphraseOption = None,
    force: Annotated[
        str | None,
        typer.Option(
            "--force",
            metavar="SHARD",
            help="Delete the data that the shard holds. Type the shard's name (setting `shard`).",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            help="File for the jobs that may run again, one line of JSON each. Default: "
            "may-run-again-TIME.jsonl in the working directory."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Restore a backup into an empty store. No master may run on that store.

    Jobs that ran or waited when the backup was taken may have run since then. They may run again. The report
    names them.
    """
    settings = load_settings(config, redis_url=redis, data_dir=data_dir)
    if force is not None and force != settings.shard:
        exits.fail(
            exits.USAGE, f"--force: the shard is {settings.shard}, and not {force}; nothing was changed"
        )
    passphrase = _passphrase(passphrase_file)
    done, path = asyncio.run(
        _bring_back(settings, directory, passphrase, is_forced=force is not None, report=report)
    )
    if as_json:
        output.say_json({**_facts(done.manifest), **_result(done), "report": str(path)})
    else:
        _show_restored(done, path)


async def _take(
    settings: "Settings", directory: Path, passphrase: str | None, longest_pause_ms: int
) -> "tuple[Manifest, int]":
    from jqmaster import __version__
    from jqmaster.store.backup.copying import Copier
    from jqmaster.store.backup.files import FORMAT, BackupWriter, Manifest
    from jqmaster.store.backup.tracked import tracked
    from jqmaster.store.keys import Keys
    from jqmaster.store.link.access import StoreAccess, naming_the_store

    url, keys = url_of(settings), Keys(settings.shard)
    async with shard_with_data(settings):
        pass
    with BackupWriter(directory, passphrase) as writer:
        with naming_the_store(url):
            async with tracked(
                url, StoreAccess.of(settings), keys.tag, timeout_s=settings.store_timeout_s
            ) as store:
                copier = Copier(store, keys, writer.add, longest_pause_ms=longest_pause_ms)
                cut = await copier.copy()
        manifest = Manifest(
            format=FORMAT, version=__version__, shard=settings.shard, cut_at_ms=cut.at_ms, paused_ms=cut.paused_ms,
            store=cut.store, mark=cut.mark, epoch=cut.epoch, jobs=cut.jobs, objects=cut.objects,
            encryption=writer.encryption,
        )  # fmt: skip
        writer.finish(manifest)
    if cut.unknown:
        output.echo(
            f"Warning: {cut.unknown} keys that this version does not know were left out", is_error=True
        )
    return manifest, writer.written_bytes


async def _bring_back(
    settings: "Settings", directory: Path, passphrase: str | None, *, is_forced: bool, report: Path | None
) -> "tuple[Restored, Path]":
    from jqmaster.app.policies import job_times
    from jqmaster.domain.instant import iso_ms
    from jqmaster.errors import ConflictError
    from jqmaster.service.operations.restoring import Restoring
    from jqmaster.store.backup import loading
    from jqmaster.store.backup.hold import held

    reader = _reader(directory, passphrase)
    if not reader.is_readable:
        exits.fail(
            exits.USAGE, f"the backup is encrypted: give --passphrase-file, or set {PASSPHRASE_VARIABLE}"
        )
    reader.check()
    is_embedded = settings.redis_url is None
    async with _target(settings) as url, shard_at(url, settings) as shard, held(shard) as hold:
        restoring = Restoring(hold, job_times(settings))
        await restoring.refuse_masters()
        # Replace the data of an unfinished restore without --force, because no master has ever served them.
        if not await loading.is_under_way(shard) and not await loading.is_empty(shard):
            if is_embedded:
                raise ConflictError(
                    f"{settings.data_dir} holds data: move the directory away, or restore into another --data-dir"
                )
            if not is_forced:
                raise ConflictError(
                    f"shard {settings.shard} holds data: restore into an empty store or another shard, or delete "
                    f"the data with --force {settings.shard}"
                )
        path = report or Path(f"may-run-again-{iso_ms(reader.manifest.cut_at_ms).replace(':', '')}.jsonl")
        with _private(path) as lines:
            done = await restoring.run(
                reader, keeps_mark=is_embedded, on_risk=lambda risk: _write_risk(lines, risk)
            )
        return done, path


@contextlib.asynccontextmanager
async def _target(settings: "Settings") -> AsyncIterator[str]:
    """Yield the address of the store. An embedded store runs for the duration of the block. End the command if a
    master uses that store."""
    from jqmaster.embedded import EmbeddedValkey
    from jqmaster.lifecycle import running
    from jqmaster.store.keys import Keys

    if settings.redis_url is not None:
        yield settings.redis_url.get_secret_value()
        return
    embedded = EmbeddedValkey(settings.data_dir, mark_key=Keys(settings.shard).generation)
    async with running([embedded]):
        yield embedded.url


def _reader(directory: Path, passphrase: str | None) -> "BackupReader":
    from jqmaster.store.backup.files import BackupReader

    return BackupReader(directory, passphrase)


def _passphrase(file: Path | None) -> str | None:
    """Return the passphrase, or None if there is none. The passphrase is never an argument, because `ps` would
    show it."""
    found: str | None
    if file is not None:
        try:
            found, place = file.read_text("utf-8").rstrip("\r\n"), f"--passphrase-file {file}"
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            exits.fail(exits.USAGE, f"--passphrase-file {file} cannot be read: {reason}")
    else:
        found, place = os.environ.get(PASSPHRASE_VARIABLE), PASSPHRASE_VARIABLE
    if found is not None and len(found) < _MIN_PASSPHRASE:
        exits.fail(exits.USAGE, f"{place}: a passphrase has {_MIN_PASSPHRASE} characters or more")
    return found


@contextlib.contextmanager
def _private(path: Path) -> Any:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        exits.fail(exits.USAGE, f"--report: {path} cannot be written: {error.strerror}")
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        yield stream


def _write_risk(lines: IO[str], risk: "Risk") -> None:
    job = risk.job
    document = {"id": job.id, "name": job.name, "state": risk.state.value, "attempt": job.attempt}
    lines.write(json.dumps(document) + "\n")


def _facts(manifest: "Manifest") -> dict[str, Any]:
    from jqmaster.domain.instant import iso_ms

    return {
        "format": manifest.format,
        "version": manifest.version,
        "shard": manifest.shard,
        "cut_at": iso_ms(manifest.cut_at_ms),
        "paused_ms": manifest.paused_ms,
        "store": manifest.store,
        "jobs": manifest.jobs,
        "objects": manifest.objects,
        "is_encrypted": manifest.encryption is not None,
    }


def _result(done: "Restored") -> dict[str, Any]:
    return {
        "may_run_again": dict(done.may_run_again),
        "failed": done.failed,
        "definitions_due": done.definitions,
    }


def _show(manifest: "Manifest") -> None:
    facts = _facts(manifest)
    output.show_fields(
        [
            ("shard", facts["shard"]),
            ("data of", facts["cut_at"]),
            ("written by", f"jqmaster {facts['version']}, format {facts['format']}, from {facts['store']}"),
            ("encrypted", "yes" if facts["is_encrypted"] else "no"),
            ("jobs", _counted(manifest.jobs)),
            ("objects", _counted(manifest.objects)),
        ]
    )


def _show_restored(done: "Restored", path: Path) -> None:
    _show(done.manifest)
    output.show_fields(
        [
            ("may run again", f"{_counted(done.may_run_again)}; see {path}"),
            ("failed", f"{done.failed} that ran then and must not run twice" if done.failed else ""),
            (
                "due since then",
                ", ".join(f"{name} (catch_up: {policy})" for name, policy in done.definitions.items()),
            ),
        ]
    )
    output.say(
        "Start the masters now. Everybody has to log in again; tokens and users are those of the backup."
    )


def _counted(counts: Any) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "none"
