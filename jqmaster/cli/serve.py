"""`jqmaster serve`: one master process."""

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    from jqmaster.errors import JqmasterError

    logs.set_up(settings.log_level)
    try:
        _print_first_token(settings)
        _run(settings)
    except JqmasterError as error:
        exits.fail(exits.code_of(error), error.detail)
    except ValueError as error:  # faulty tokens
        exits.fail(exits.USAGE, str(error))
    except OSError as error:  # a port that is taken, a file that cannot be read
        exits.fail(exits.REFUSED, str(error))


def _print_first_token(settings: "Settings") -> None:
    from jqmaster.api.auth import generate_first_token

    if token := generate_first_token(settings):
        typer.echo(f"first token, shown this once (scope admin): {token}")


def _run(settings: "Settings") -> None:
    import uvloop

    uvloop.run(_serve(settings))


async def _serve(settings: "Settings") -> None:
    from jqmaster import app

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGINT, _interrupt, stop)
    await app.serve(settings, ready=lambda address: _print_address(settings, address), stop=stop)


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
    typer.echo(f"jqmaster serves on {address}  (durability {settings.durability}, {store})")
