"""`jqmaster healthcheck`: the health check of containers, for masters and for workers."""

from typing import Annotated

import typer

from jqmaster.cli.console import alive, exits


def healthcheck(
    url: Annotated[
        str | None,
        typer.Option(
            help="Check this address, such as http://127.0.0.1:9000/ping, instead of the configured master."
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds to wait for the answer.")
    ] = alive.DEFAULT_TIMEOUT_S,
    *,
    ready: Annotated[
        bool,
        typer.Option("--ready", help="Also check that the master is ready for requests (/readyz)."),
    ] = False,
) -> None:
    """Check that the master or worker of this container is alive.

    While a master answers its heartbeats, a worker keeps updating the file that JQMASTER_HEALTH_FILE names. If
    the file exists, the check depends on the age of the file. So workers that pull can be checked, too.
    Otherwise, the check calls /healthz at the host and port of the settings.

    This checks only liveness: a master with an unreachable store is alive.
    """
    try:
        alive.check(url, timeout, is_ready=ready)
    except alive.MalformedUrlError as error:
        exits.fail(exits.USAGE, str(error))
    except alive.NotAliveError as error:
        exits.fail(exits.UNREACHABLE, str(error))
