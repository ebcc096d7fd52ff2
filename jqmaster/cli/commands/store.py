"""Commands that check the store and its data."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.http import JsonOption
from jqmaster.cli.console.settings import ConfigOption, DataDirOption, RedisOption, load_settings
from jqmaster.cli.console.stores import fail_without_data, shard_at, url_of

if TYPE_CHECKING:
    from jqmaster.config import Settings
    from jqmaster.store.health.store_report import ProbeResult, StoreReport
    from jqmaster.store.link.client import StoreClient

T = TypeVar("T")

# Number of keys between two progress reports of fsck.
_KEYS_TOLD: Final = 100_000
_DOCTORS_PAGES: Final = 20
_MAX_NAMED: Final = 5


def doctor(
    redis: RedisOption = None,
    data_dir: DataDirOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check the store's version, durability, eviction, memory, latency and clock, and explain how to fix each fault."""
    settings = load_settings(config, redis_url=redis, data_dir=data_dir)
    report = _run(_examine, settings, when_away=_told_by_data_dir)
    if as_json:
        output.say_json(asdict(report))
    else:
        _show_report(report, settings)
    if any(fault.level == "error" for fault in report.faults):
        raise typer.Exit(exits.FAILED)


def fsck(
    redis: RedisOption = None,
    data_dir: DataDirOption = None,
    config: ConfigOption = None,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Repair data that the job records prove to be wrong. The audit log lists the repairs.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check that the data in the store is consistent. Changes nothing without --repair. Masters may keep running."""
    settings = load_settings(config, redis_url=redis, data_dir=data_dir)
    if repair:
        count = _run(lambda client, settings: _repair(client, settings, as_json=as_json), settings)
        if not as_json:
            output.say(f"{count} repaired")

    checked = 0

    async def check(client: "StoreClient", settings: "Settings") -> int:
        from jqmaster.store.health.fsck import check
        from jqmaster.store.keys import Keys

        count, told_at = 0, 0

        def tell(looked_at: int) -> None:
            nonlocal checked, told_at
            checked = looked_at
            if looked_at - told_at >= _KEYS_TOLD:
                told_at = looked_at
                output.echo(f"{looked_at:,} keys compared with the table of keys", is_error=True)

        await _note_replica(client)
        async for finding in check(client, Keys(settings.shard), on_keys=tell):
            count += 1
            if as_json:
                output.say_json(asdict(finding))
            else:
                output.say(f"{finding.rule}  {finding.key}  {finding.detail}")
        return count

    if count := _run(check, settings):
        exits.fail(exits.FAILED, f"{count} {'fault' if count == 1 else 'faults'} found, as listed above")
    if not checked:
        fail_without_data(settings)
    if not as_json:
        told = "1 key" if checked == 1 else f"{checked:,} keys"
        output.say(f"tag {settings.shard}: {told} checked, no faults found")


async def _note_replica(client: "StoreClient") -> None:
    """Print a note if the store is a replica."""
    from jqmaster.errors import JqmasterError

    # best effort: a store that does not report its role is checked anyway.
    with contextlib.suppress(JqmasterError):
        told = (await client.command("INFO", "replication")).splitlines()
        if b"role:slave" in told:
            behind = "" if b"master_link_status:up" in told else ", and its link to the primary is down"
            typer.echo(f"The address is that of a replica: its data may be behind{behind}.", err=True)


async def _repair(client: "StoreClient", settings: "Settings", *, as_json: bool) -> int:
    from jqmaster.app.policies import job_times
    from jqmaster.errors import StaleEpochError
    from jqmaster.live_value import LiveValue
    from jqmaster.store.backup.loading import is_empty
    from jqmaster.store.health.repair import Repair
    from jqmaster.store.keys import Keys
    from jqmaster.store.leadership.leadership import LeadershipStore
    from jqmaster.store.link.shard import Shard

    shard, count = Shard.bound(client, Keys(settings.shard)), 0
    leadership = await LeadershipStore(shard).current()
    if leadership is None:
        if await is_empty(shard):
            fail_without_data(settings)
        exits.fail(
            exits.UNREACHABLE,
            "no master leads, so nothing may be changed. Start a master, which repairs the data itself",
        )
    times = LiveValue(job_times(settings))
    try:
        async for step in Repair(shard, leadership.epoch, who="fsck", times=times).steps():
            for finding in step.repaired:
                count += 1
                if as_json:
                    output.say_json({**asdict(finding), "repaired": True})
                else:
                    output.say(f"repaired: {finding.rule}  {finding.key}  {finding.detail}")
    except StaleEpochError:
        exits.fail(
            exits.UNREACHABLE, "another master leads now. The repairs so far remain; run the command again"
        )
    return count


async def _examine(client: "StoreClient", settings: "Settings") -> "StoreReport":
    from jqmaster.errors import JqmasterError, StoreUnavailableError
    from jqmaster.net.certificate_ends import ending_soon
    from jqmaster.net.trace_collector import TraceCollector
    from jqmaster.store.health.probe import probe
    from jqmaster.store.health.store_report import ProbeResult
    from jqmaster.store.logs.archive import ArchiveAddress, LogArchive

    report = await probe(client.redis, settings)
    # best effort: the report already names the calls that the store refuses.
    with contextlib.suppress(StoreUnavailableError):
        report = replace(report, faults=(*report.faults, *await _foreign_keys(client, settings)))
    probes: list[tuple[Callable[[], Coroutine[Any, Any, None]], str]] = []
    if (address := ArchiveAddress.of(settings)) is not None:
        how = "Check log_archive_url, its endpoint, region and key, and the rights on the bucket or directory"
        probes.append((LogArchive(address, settings.shard).probe, how))
    if settings.traces_endpoint is not None:
        probes.append((TraceCollector(settings.traces_endpoint).probe, "Check traces_endpoint"))
    for text in ending_soon(settings):
        report = replace(report, faults=(*report.faults, ProbeResult("warning", text, "Renew the file")))
    for probed, how in probes:
        try:
            await probed()
        except JqmasterError as error:
            report = replace(report, faults=(*report.faults, ProbeResult("warning", error.detail, how)))
    return report


async def _foreign_keys(client: "StoreClient", settings: "Settings") -> "list[ProbeResult]":
    """Return faults for keys of other programs.

    The check is quick: it examines the fixed names of this program's keys, and the first pages of a scan."""
    from jqmaster.store.health.key_types import UNKNOWN, compare_keys, wrong_types
    from jqmaster.store.health.store_report import ProbeResult
    from jqmaster.store.keys import Keys

    keys = Keys(settings.shard)
    wrong = dict(await wrong_types(client, keys))
    compared = await compare_keys(client, keys, most_pages=_DOCTORS_PAGES)
    remedy = "Stop the other program, or use another shard for one of the two programs"
    found = [
        ProbeResult("error", f"{name} {detail}", remedy)
        for name, detail in (wrong | compared.mistyped.details).items()
    ]
    if count := compared.unknown.count:
        names = ", ".join(list(compared.unknown.details)[:_MAX_NAMED])
        more = f" and {count - _MAX_NAMED} more" if count > _MAX_NAMED else ""
        place = (
            ""
            if compared.is_whole
            else f" among the first {compared.looked_at:,} keys; `jqmaster fsck` looks at all"
        )
        found.append(ProbeResult("warning", f"{names}{more}: each {UNKNOWN}{place}", remedy))
    return found


def _told_by_data_dir(settings: "Settings") -> None:
    """Raise a JqmasterError with the reason why an embedded store cannot run, if there is one."""
    from jqmaster.embedded import examine

    if settings.redis_url is None:
        examine(settings.data_dir)


def _run(
    use: "Callable[[StoreClient, Settings], Coroutine[Any, Any, T]]",
    settings: "Settings",
    *,
    when_away: "Callable[[Settings], None]" = lambda _: None,
) -> T:
    """Run `use` on the store, and return its result.

    `when_away`: called if the store cannot be reached. Raises JqmasterError if it knows the reason."""
    from jqmaster.errors import StoreUnavailableError

    async def connected() -> T:
        async with shard_at(url_of(settings, when_away=when_away), settings) as shard:
            return await use(shard.client, settings)

    try:
        return asyncio.run(connected())
    except StoreUnavailableError:
        when_away(settings)
        raise


def _clock_text(ahead_ms: int) -> str:
    if ahead_ms == 0:
        return "the same as here"
    return f"{abs(ahead_ms)} ms {'ahead of' if ahead_ms > 0 else 'behind'} this machine's"


def _show_report(report: "StoreReport", settings: "Settings") -> None:
    mib = 1024 * 1024
    most = f" of {report.memory_max_bytes / mib:.0f}" if report.memory_max_bytes else ""
    output.show_fields(
        [
            ("store", f"{report.kind} {'.'.join(map(str, report.version))}, {report.role}"),
            ("durability", f"{report.durability} (configured: {settings.durability})"),
            (
                "append-only file",
                f"{'on' if report.appendonly else 'off'}, fsync {report.appendfsync or 'not shown'}",
            ),
            ("eviction", report.maxmemory_policy),
            ("replicas in sync", str(report.replicas_in_sync)),
            ("memory", f"{report.memory_used_bytes / mib:.1f}{most} MiB"),
            ("latency", f"{report.latency_ms:.2f} ms"),
            ("clock", _clock_text(round(report.clock_ahead_ms))),
        ]
    )
    for fault in report.faults:
        output.say(f"\n{fault.level}: {fault.what}\n  {fault.how_to_fix}")
    if settings.redis_url is None and any("CONFIG SET" in fault.how_to_fix for fault in report.faults):
        from jqmaster.embedded.directory import DataDirectory

        directory = DataDirectory(settings.data_dir)
        output.say(
            f"\nTo reach the embedded store: valkey-cli -s {directory.socket()}, with the password in "
            f"{directory.password_file}. It forgets such a change when it ends."
        )
