"""`jqmaster serve`: run one master, or several that share a port."""

import asyncio
import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.settings import ConfigOption, DataDirOption, RedisOption, load_settings

if TYPE_CHECKING:
    from jqmaster.config import Settings

# Number of new objects that starts a garbage collection. Python's default is 700. One page of jobs creates
# several times as many objects, which are freed a moment later. The imports of a master create hundreds of
# thousands of objects, which stay.
GC_THRESHOLD: Final = 10_000

HostOption = Annotated[
    str | None,
    typer.Option(
        help="Address to listen on. Any address other than loopback requires tokens. Default: 127.0.0.1."
    ),
]
PortOption = Annotated[
    int | None,
    typer.Option(help="Port to listen on. 0 lets the system choose one. Default: 8080."),
]
DurabilityOption = Annotated[
    str | None,
    typer.Option(
        help="Durability that the answer 201 guarantees: besteffort, fsync or fsync+quorum. Default: fsync."
    ),
]
WithWorkerOption = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:OBJECT",
        help="Also run this worker_sdk.Worker in the same process.",
    ),
]
ProcessesOption = Annotated[
    int | None,
    typer.Option(help="Number of master processes. Each can use one core. Default: 1."),
]
FireworqOption = Annotated[
    str | None,
    typer.Option(
        metavar="PREFIX",
        help="Also serve the API of Fireworq below this path, such as /fireworq. Default: do not serve it.",
    ),
]
LogLevelOption = Annotated[
    str | None,
    typer.Option(help="Lowest level to log: debug, info, warning or error. Default: info."),
]


def serve(
    *,
    host: HostOption = None,
    port: PortOption = None,
    redis: RedisOption = None,
    data_dir: DataDirOption = None,
    durability: DurabilityOption = None,
    with_worker: WithWorkerOption = None,
    processes: ProcessesOption = None,
    fireworq: FireworqOption = None,
    log_level: LogLevelOption = None,
    config: ConfigOption = None,
) -> None:
    """Run a master. Without --redis it starts its own Valkey in --data-dir.

    Every setting can also be a JQMASTER_… variable or a line of the --config file.
    """
    from worker_sdk.worker import first_process

    first_process.give_way()
    with _collection_put_off():
        settings = load_settings(
            config,
            host=host,
            port=port,
            redis_url=redis,
            data_dir=data_dir,
            durability=durability,
            processes=processes,
            fireworq_prefix=fireworq,
            log_level=log_level,
        )
        from jqmaster.cli.console import logs

        logs.set_up(settings.log_level, settings.log_format, secrets=logs.secrets_of(settings))
        if settings.processes > 1 and with_worker is not None:
            exits.fail(
                exits.USAGE,
                "--with-worker supports one process only; start `jqmaster worker` separately for several",
            )
        companion = None if with_worker is None else _companion(with_worker)
        with _errors_told(settings):
            _check_first_start(settings)
            _print_first_token(settings)
            if settings.processes > 1:
                _run_loop(settings, lambda: _serve_several(settings))
            elif companion is None:
                _run_loop(
                    settings, lambda: _serve(settings, lambda address: _print_address(settings, address))
                )
            else:
                _run_loop(settings, lambda: _serve_with(settings, companion))


def serve_one(settings: "Settings", ready: Callable[[], None]) -> None:
    """Run one of several processes, on a port that is already known. Call `ready` when the process serves requests."""
    from jqmaster.cli.console import logs

    logs.set_up(settings.log_level, settings.log_format, secrets=logs.secrets_of(settings))
    with _collection_put_off(), _errors_told(settings):
        _run_loop(settings, lambda: _serve(settings, lambda _: ready()))


def _companion(target: str) -> Any:
    from jqmaster.cli.console import logs
    from worker_sdk.command_line.worker import load_worker

    logs.route_structlog()
    with exits.told():
        return load_worker(target)


@contextlib.contextmanager
def _errors_told(settings: "Settings") -> Iterator[None]:
    from jqmaster.cli.process.listening import fault_text
    from jqmaster.errors import JqmasterError
    from worker_sdk.command_line.supervisor import ChildFailedError

    try:
        yield
    except JqmasterError as error:
        exits.fail(exits.code_of(error), error.detail)
    except ChildFailedError as error:  # the process has printed the reason
        raise typer.Exit(error.code) from None
    except ValueError as error:  # for example, invalid tokens or a worker without handlers
        exits.fail(exits.USAGE, str(error))
    except OSError as error:  # for example, a port in use or an unreadable file
        exits.fail(exits.REFUSED, fault_text(error, settings.host, settings.port) or str(error))


def _check_first_start(settings: "Settings") -> None:
    """Check the address before the first start creates a data directory. Raise OSError."""
    from jqmaster.cli.process.listening import check_address

    if settings.redis_url is None and not settings.data_dir.exists():
        check_address(settings.host, settings.port)


def _print_first_token(settings: "Settings") -> None:
    from jqmaster.api.http.auth import generate_first_token, needs_first_token

    if not needs_first_token(settings):
        return
    from jqmaster.cli.process.listening import check_address
    from jqmaster.embedded import make_directory

    # The first token is shown only once. So before that, check everything that could make the start fail later.
    check_address(settings.host, settings.port)
    make_directory(settings.data_dir)
    if token := generate_first_token(settings):
        output.echo(f"first token (scope admin), shown only once: {token}")


def _run_loop(settings: "Settings", serving: Callable[[], Coroutine[Any, Any, None]]) -> None:
    import uvloop

    from jqmaster.cli.process.loop_watchdog import watched_loop
    from jqmaster.net import descriptors

    async def watched() -> None:
        async with watched_loop(settings.loop_watchdog_s):
            await serving()

    descriptors.allow_many()
    try:
        uvloop.run(watched())
    finally:
        _discard_unwritable()


@contextlib.contextmanager
def _collection_put_off() -> Iterator[None]:
    """Turn garbage collection off while a master imports its modules, because nearly all objects of the imports
    stay.

    `_freeze_gc` turns it on again right after the imports, because the rest of the start may take minutes.
    """
    gc.set_threshold(GC_THRESHOLD)
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _freeze_gc() -> None:
    """Exempt all existing objects from garbage collection, so that the collector never walks them.

    A collection before this step would free only 1 % of the memory, and would take a twentieth of the start time.
    Jobs leave no reference cycles behind. Other objects may, but nobody needs their memory soon.
    """
    gc.freeze()
    gc.enable()


async def _serve(settings: "Settings", ready: Callable[[str], None]) -> None:
    from jqmaster import app

    _freeze_gc()

    def up(address: str) -> None:
        _freeze_gc()
        ready(address)

    await app.serve(settings, ready=up, stop=_stop_event(on_impatience=lambda: _end_store(settings)))


async def _serve_several(settings: "Settings") -> None:
    """Run several processes. An embedded store outlives all processes that use it. The port is bound before the first
    process listens."""
    from pydantic import SecretStr

    from jqmaster.cli.console.settings import plain_settings
    from jqmaster.cli.process.shared_port import SharedPort
    from jqmaster.embedded import EmbeddedValkey
    from jqmaster.lifecycle import running
    from jqmaster.store.keys import Keys
    from worker_sdk.command_line.supervisor import Supervisor

    _freeze_gc()

    def at_once() -> None:
        if supervisor:
            supervisor.kill()
        _end_store(settings)

    told = _stop_event(on_impatience=at_once)
    supervisor: Supervisor | None = None
    async with contextlib.AsyncExitStack() as stack:
        port = stack.enter_context(SharedPort(settings.host, settings.port))
        url = settings.redis_url
        if url is None:
            embedded = EmbeddedValkey(settings.data_dir, mark_key=Keys(settings.shard).generation)
            if not await _unless_told(told, stack.enter_async_context(running([embedded]))):
                return
            url = SecretStr(embedded.url)
        of_each = settings.model_copy(update={"redis_url": url, "port": port.number})
        supervisor = Supervisor(
            "jqmaster.cli.process.child", [{"settings": plain_settings(of_each)}] * settings.processes
        )
        if await _unless_told(told, stack.enter_async_context(running([supervisor]))):
            _print_address(
                settings, f"{port.url(is_tls=bool(settings.tls_certfile))}, {settings.processes} processes"
            )
            await told.wait()


async def _unless_told(told: asyncio.Event, starting: Coroutine[Any, Any, None]) -> bool:
    """Wait for the start, and return whether it has completed. A start may take minutes. A signal to stop ends
    the wait."""
    start, stop = asyncio.create_task(starting), asyncio.create_task(told.wait())
    await asyncio.wait({start, stop}, return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if not start.done():
        start.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await start
        return False
    start.result()
    return True


async def _serve_with(settings: "Settings", worker: Any) -> None:
    """Run a master and a worker. The worker starts after the master and stops before it. So the master can still
    accept the worker's last reports."""
    from jqmaster import app
    from jqmaster.cli.process.companion import Companion

    _freeze_gc()
    companion = Companion(worker)
    told = asyncio.create_task(_stop_event(on_impatience=lambda: _end_store(settings)).wait())
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stop_master = asyncio.Event()
    serving = asyncio.create_task(
        app.serve(
            settings, ready=address.set_result, stop=stop_master, own_tokens=[f"work+push:{companion.token}"]
        )
    )
    try:
        first: set[asyncio.Future[Any]] = {serving, told, address}
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if address.done():
            await companion.start(address.result())
            _print_address(settings, address.result())
            _tell(f"its worker runs {', '.join(worker.names)}")
            await asyncio.wait({serving, told}, return_when=asyncio.FIRST_COMPLETED)
            if not serving.done():
                await companion.stop()
    finally:
        told.cancel()
        stop_master.set()
        await serving


def _stop_event(on_impatience: Callable[[], None]) -> asyncio.Event:
    """Return an event that the first stop signal sets. A second Ctrl-C calls `on_impatience`, and ends the process."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, told.set)
    # Stop on SIGHUP, which a closing terminal sends, because the embedded Valkey must not stay behind. Ignore
    # SIGHUP if `nohup` started the process.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, told.set)
    loop.add_signal_handler(signal.SIGINT, _interrupt, told, on_impatience)
    return told


def _interrupt(stop: asyncio.Event, on_impatience: Callable[[], None]) -> None:
    if stop.is_set():
        # End the process at once after a second Ctrl-C. No accepted job is lost, because the store has all of them.
        on_impatience()
        os._exit(128 + signal.SIGINT)
    stop.set()


def _end_store(settings: "Settings") -> None:
    """Stop the master's own Valkey, because no other process stops it. Valkey first writes all accepted data."""
    from jqmaster.embedded import end_running

    if settings.redis_url is None and (pid := end_running(settings.data_dir)):
        with contextlib.suppress(OSError):
            output.echo(f"Its own Valkey (process {pid}) was told to end, too.", is_error=True)


def _print_address(settings: "Settings", address: str) -> None:
    """Report that the service is ready, to people and to systemd."""
    from jqmaster.cli.process.loop_watchdog import tell_systemd

    tell_systemd("READY=1")
    store = (
        "the store of --redis"
        if settings.redis_url
        else f"its own Valkey in {Path(settings.data_dir).absolute()}"
    )
    _tell(f"jqmaster serves on {address}  (durability {settings.durability}, {store})")
    _tell(f"web UI: {address.partition(',')[0]}/")


def _tell(text: str) -> None:
    # best effort: the disk that receives the output may be full, and the master must serve anyway.
    with contextlib.suppress(OSError):
        output.echo(text)


def _discard_unwritable() -> None:
    """Drop buffered output that does not fit on the disk. Otherwise, the process would end with an error."""
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()
        except OSError:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - until the end
