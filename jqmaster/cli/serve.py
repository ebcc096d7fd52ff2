"""`jqmaster serve`: one master process."""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jqmaster.cli import exits
from jqmaster.cli.settings import ConfigOption, DataDirOption, RedisOption, load_settings

if TYPE_CHECKING:
    from jqmaster.config import Settings


def serve(
    *,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; anything but loopback demands tokens.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 lets the system choose.")] = None,
    redis: RedisOption = None,
    data_dir: DataDirOption = None,
    durability: Annotated[
        str | None, typer.Option(help="What a 201 promises: besteffort, fsync, fsync+quorum.")
    ] = None,
    with_worker: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:OBJECT",
            help="Run this worker_sdk.Worker in the same process: one node works alone.",
        ),
    ] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning, error.")] = None,
    config: ConfigOption = None,
) -> None:
    """Serve jobs. Without --redis the master starts its own Valkey in --data-dir.

    Every setting is a JQMASTER_… variable or a line of --config too.
    """
    settings = load_settings(
        config,
        host=host,
        port=port,
        redis_url=redis,
        data_dir=data_dir,
        durability=durability,
        log_level=log_level,
    )
    from jqmaster.cli import logs
    from jqmaster.cli.worker import load_worker
    from jqmaster.errors import JqmasterError

    logs.set_up(settings.log_level)
    companion = None if with_worker is None else load_worker(with_worker)
    try:
        _print_first_token(settings)
        _run(settings, companion)
    except JqmasterError as error:
        exits.fail(exits.code_of(error), error.detail)
    except ValueError as error:  # faulty tokens, a worker without handlers
        exits.fail(exits.USAGE, str(error))
    except OSError as error:  # a port that is taken, a file that cannot be read
        exits.fail(exits.REFUSED, str(error))


def _print_first_token(settings: "Settings") -> None:
    from jqmaster.api.auth import generate_first_token

    if token := generate_first_token(settings):
        typer.echo(f"first token, shown this once (scope admin): {token}")


def _run(settings: "Settings", worker: Any) -> None:
    import uvloop

    from jqmaster import descriptors

    descriptors.allow_many()
    try:
        uvloop.run(_serve(settings) if worker is None else _serve_with(settings, worker))
    finally:
        _drop_what_cannot_be_written()


async def _serve(settings: "Settings") -> None:
    from jqmaster import app

    await app.serve(settings, ready=lambda address: _print_address(settings, address), stop=_told())


async def _serve_with(settings: "Settings", worker: Any) -> None:
    """The worker comes after the master and goes before it: what it reports to the last is still taken."""
    from jqmaster import app
    from jqmaster.cli.companion import Companion

    companion = Companion(worker)
    told = asyncio.create_task(_told().wait())
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


def _told() -> asyncio.Event:
    """Set by the first signal to end."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, told.set)
    loop.add_signal_handler(signal.SIGINT, _interrupt, told)
    return told


def _interrupt(stop: asyncio.Event) -> None:
    if stop.is_set():
        # Whoever presses Ctrl-C twice wants out. Nothing accepted is lost: the next master finds the store as it is.
        os._exit(128 + signal.SIGINT)
    stop.set()


def _print_address(settings: "Settings", address: str) -> None:
    store = (
        "the store of --redis"
        if settings.redis_url
        else f"its own Valkey in {Path(settings.data_dir).absolute()}"
    )
    _tell(f"jqmaster serves on {address}  (durability {settings.durability}, {store})")


def _tell(text: str) -> None:
    # The disk that its output goes to may be full: no reason not to serve.
    with contextlib.suppress(OSError):
        typer.echo(text)


def _drop_what_cannot_be_written() -> None:
    """What is left in a buffer when the process ends, and has no room on the disk, would make its end a failure."""
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()
        except OSError:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - until the end
