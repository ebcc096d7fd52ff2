"""`jqmaster outbox`: push the jobs that an application left in its outbox."""

import asyncio
import contextlib
import logging
import signal
from dataclasses import asdict
from typing import Annotated, Any

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.http import JsonOption
from worker_sdk.command_line.objects import object_at


def outbox(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:OBJECT", help="An Outbox, for example app:outbox, in the current directory."
        ),
    ],
    *,
    poll: Annotated[
        float, typer.Option(min=0.01, help="Seconds between two checks while there is nothing to do.")
    ] = 1.0,
    once: Annotated[
        bool,
        typer.Option(
            "--once",
            help=("Push the jobs that wait now, and exit. The exit code is 5 if no master accepts them."),
        ),
    ] = False,
    status: Annotated[
        bool, typer.Option("--status", help="Print the numbers of waiting and refused jobs, and exit.")
    ] = False,
    retry_stuck: Annotated[
        bool,
        typer.Option("--retry-stuck", help="Let the jobs that a master refused wait again, and exit."),
    ] = False,
    metrics_port: Annotated[
        int | None, typer.Option(help="Port of 127.0.0.1 that serves metrics for Prometheus.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Push the jobs that a crash or an outage of the masters left in an application's outbox.

    Any number of relays may run at the same time.
    """
    found = object_at(target)
    from worker_sdk import outbox as sdk

    if not isinstance(found, sdk.Outbox):
        exits.fail(exits.USAGE, f"{target} is not an outbox of worker_sdk")
    if status:
        _show_status(found, as_json=as_json)
    elif retry_stuck:
        count = _call(found, lambda rows: rows.retry_stuck())
        if as_json:
            output.say_json({"count": count})
        else:
            output.say(f"{count} jobs wait again")
    elif once:
        _relay_once(found, sdk, as_json=as_json)
    else:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
        # Log the start, because nothing else is logged until something goes wrong.
        logging.info("relaying %s", target)
        asyncio.run(_relay(found, sdk, poll, None if metrics_port is None else _gauges(metrics_port)))


def _call(found: Any, work: Any) -> Any:
    return asyncio.run(found.ain_transaction(work)) if found.is_async else found.in_transaction(work)


def _show_status(found: Any, *, as_json: bool) -> None:
    counted, stuck = _call(found, lambda rows: (rows.stats(), rows.stuck(100)))
    stats = asdict(counted)
    if as_json:
        output.say_json({**stats, "refused": [{"id": job_id, "error": error} for job_id, error in stuck]})
        return
    output.say(
        f"{stats['waiting']} waiting, the oldest for {stats['lag_s']:.0f} s  ·  {stats['stuck']} refused  ·  "
        f"{stats['newer']} of a newer release"
    )
    for job_id, error in stuck:
        output.say(f"{job_id}  {error}")


def _relay_once(found: Any, sdk: Any, *, as_json: bool) -> None:
    done = (
        asyncio.run(_run_all(sdk.AsyncRelay(found), found)) if found.is_async else sdk.Relay(found).run_all()
    )
    if done.failure is not None:
        exits.fail(exits.UNREACHABLE, f"{done.pushed} jobs pushed; {done.failure}")
    if as_json:
        output.say_json({"pushed": done.pushed, "refused": done.set_aside})
    else:
        output.say(f"{done.pushed} jobs pushed, {done.set_aside} refused")


async def _run_all(relay: Any, found: Any) -> Any:
    try:
        return await relay.run_all()
    finally:
        await found.aclose()


async def _relay(found: Any, sdk: Any, poll_s: float, on_stats: Any) -> None:
    loop = asyncio.get_running_loop()
    if found.is_async:
        task = asyncio.ensure_future(sdk.AsyncRelay(found, poll_s=poll_s, on_stats=on_stats).run())
        end: Any = task.cancel
    else:
        relay = sdk.Relay(found, poll_s=poll_s, on_stats=on_stats)
        task = asyncio.ensure_future(asyncio.to_thread(relay.run))
        end = relay.stop
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _gauges(port: int) -> Any:
    """Serve metrics, and return the function that sets them."""
    import prometheus_client

    gauges = {
        name: prometheus_client.Gauge(f"jqmaster_outbox_{name}", text)
        for name, text in (
            ("waiting", "Jobs that are committed and not pushed yet."),
            ("lag_s", "Age of the oldest waiting job in seconds."),
            ("stuck", "Jobs that a master refused."),
            ("newer", "Rows of a newer release."),
        )
    }
    try:
        prometheus_client.start_http_server(port, addr="127.0.0.1")
    except OSError as error:
        exits.fail(exits.REFUSED, f"port {port}: {error}")

    def set_all(stats: Any) -> None:
        for name, gauge in gauges.items():
            gauge.set(getattr(stats, name))

    return set_all
