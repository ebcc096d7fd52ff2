"""Check a worker, a master or an HTTP endpoint against the protocol."""

import asyncio
import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.groups import CommandGroup
from worker_sdk.transport.namespaces import split_checked

if TYPE_CHECKING:
    from jqmaster.conformance.false_master import FalseMaster
    from jqmaster.conformance.questions import Result

app = CommandGroup(
    help="Check a worker, a master or an HTTP endpoint against the protocol. Exit code 0: all checks passed.",
    no_args_is_help=True,
)

_AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON line per question.")]
_Only = Annotated[
    list[str] | None,
    typer.Option("--only", help="Ask only questions with an ID that begins with this text. Can be repeated."),
]
_List = Annotated[bool, typer.Option("--list", help="List the questions without asking them.")]
_Listen = Annotated[str, typer.Argument(help="Address on which the kit listens as the worker's master.")]
_Run = Annotated[
    str | None,
    typer.Option(
        help="Start the worker with this command. It finds the kit through JQMASTER_URL and JQMASTER_TOKEN."
    ),
]
_Quick = Annotated[
    bool,
    typer.Option(
        "--quick",
        help="Skip the slow questions: those about leases, repetitions and heartbeats.",
    ),
]
_Wait = Annotated[float, typer.Option(help="Seconds to wait for the worker to register.")]
_Lease = Annotated[
    float,
    typer.Option(
        min=2,
        max=60,
        help="Length of a lease in seconds. A heartbeat is due 20 times per lease. Use more for slow workers.",
    ),
]
_Namespace = Annotated[
    str | None,
    typer.Option(
        help=(
            "Test a worker that serves several namespaces in this namespace. JQMASTER_WORKER_NAMESPACES "
            "names two namespaces for the worker: this one, and one with an unreachable store."
        )
    ),
]


@app.command()
def worker(  # noqa: PLR0917  options of a command
    listen: _Listen = "http://127.0.0.1:0",
    run: _Run = None,
    only: _Only = None,
    quick: _Quick = False,
    wait: _Wait = 60.0,
    lease: _Lease = 4.0,
    namespace: _Namespace = None,
    as_json: _AsJson = False,
    list_them: _List = False,
) -> None:
    """Act as the master of a worker, and check the worker against docs/worker_protocol.md.

    The worker needs three handlers. conformance.echo returns its argument. conformance.sleep sleeps for the
    number of seconds in its argument, and can be stopped. conformance.fail gets {message, retry} and fails with
    this message. It allows a retry only if `retry` is true.
    """
    from jqmaster.conformance.worker_kit import QUESTIONS, NoWorkerError, ask_worker

    if list_them:
        for question in QUESTIONS:
            modes = "" if len(question.modes) > 1 else f" ({', '.join(question.modes)} only)"
            output.echo(f"{question.id}: {question.text}{modes}")
        return
    try:
        parts = split_checked(listen)
        host, port = parts.hostname or "", parts.port or 0
    except ValueError:
        host, port = "", 0
    if not host or parts.scheme != "http":
        exits.fail(exits.USAGE, f"not an address to listen on: {listen} (like http://127.0.0.1:9099)")

    def ready(master: "FalseMaster") -> None:
        if run is None:
            output.echo(
                f"Point the worker at {master.url} with the token {master.token}, with max_jobs of 2 to 10.",
                is_error=True,
            )

    try:
        results = asyncio.run(
            ask_worker(
                host=host,
                port=port,
                command=run,
                only=only or [],
                is_quick=quick,
                wait_s=wait,
                lease_s=lease,
                namespace=namespace,
                ready=ready,
                told=lambda result: _tell(result, as_json=as_json),
            )
        )
    except NoWorkerError as exc:
        exits.fail(exits.UNREACHABLE, str(exc))
    except OSError as exc:
        exits.fail(exits.REFUSED, f"{listen}: {exc.strerror or exc}")
    _end(results, as_json=as_json)


@app.command()
def master(
    url: Annotated[str, typer.Argument(help="Address of the master.")],
    only: _Only = None,
    as_json: _AsJson = False,
    list_them: _List = False,
) -> None:
    """Check a master against the API of pushers and workers.

    The token in JQMASTER_TOKEN needs the scopes push, work and operate. The checks use their own job names, and delete
    their jobs afterwards.
    """
    from jqmaster.conformance.master_kit import QUESTIONS, ask_master

    if list_them:
        for question in QUESTIONS:
            output.echo(f"{question.id}: {question.text}")
        return
    _check_address(url)
    try:
        results = asyncio.run(
            ask_master(
                url.rstrip("/"),
                token=os.environ.get("JQMASTER_TOKEN"),
                only=only or [],
                told=lambda result: _tell(result, as_json=as_json),
            )
        )
    except (OSError, EOFError) as exc:
        from worker_sdk.transport.call_faults import OF_CLIENTS, explained

        exits.fail(exits.UNREACHABLE, f"{url}: {explained(exc, url, OF_CLIENTS)}")
    _end(results, as_json=as_json)


@app.command()
def target(
    url: Annotated[str, typer.Argument(help="Address of the endpoint.")],
    argument: Annotated[
        str,
        typer.Argument(
            help="Argument of a job that the endpoint can run: JSON, @FILE with JSON, or - for standard input."
        ),
    ] = "{}",
    *,
    name: Annotated[str, typer.Option(help="Name of the jobs.")] = "conformance.echo",
    envelope: Annotated[
        bool,
        typer.Option(
            "--envelope",
            help="Send the argument inside a map with the data of the job, as `body: envelope` does.",
        ),
    ] = False,
    method: Annotated[str, typer.Option(help="POST, PUT or PATCH.")] = "POST",
    secret_file: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            help="File with the target's secret, which signs the requests. Default: no signatures, and no questions "
            "about them.",
        ),
    ] = None,
    callback_host: Annotated[
        str, typer.Option(help="Address of this machine to which the endpoint sends callbacks.")
    ] = "127.0.0.1",
    only: _Only = None,
    as_json: _AsJson = False,
    list_them: _List = False,
) -> None:
    """Act as the masters that deliver jobs to an endpoint, and check its answers against docs/targets.md.

    The endpoint runs the same job about 30 times.
    """
    from jqmaster.cli.console.documents import value_of
    from jqmaster.conformance.target_kit import QUESTIONS, ask_target

    if list_them:
        for question in QUESTIONS:
            output.echo(f"{question.id}: {question.text}")
        return
    if method not in ("POST", "PUT", "PATCH"):
        exits.fail(exits.USAGE, f"--method {method}: expected POST, PUT or PATCH")
    _check_address(url)
    sample = value_of(argument, "the argument")
    try:
        results = asyncio.run(
            ask_target(
                url,
                name=name,
                argument=sample,
                secret=None if secret_file is None else secret_file.read_text("utf-8").strip(),
                has_envelope=envelope,
                method=method,
                callback_host=callback_host,
                only=only or [],
                told=lambda result: _tell(result, as_json=as_json),
            )
        )
    except ValueError as exc:
        exits.fail(exits.USAGE, f"--secret-file: {exc}")
    except (OSError, EOFError) as exc:
        from worker_sdk.transport.call_faults import OF_CLIENTS, explained

        exits.fail(exits.UNREACHABLE, f"{url}: {explained(exc, url, OF_CLIENTS)}")
    _end(results, as_json=as_json)


def _check_address(url: str) -> None:
    try:
        split_checked(url)
    except ValueError:
        exits.fail(exits.USAGE, f"{url}: expected http://host:port")


def _tell(result: "Result", *, as_json: bool) -> None:
    if as_json:
        output.echo(json.dumps(result.as_json()))
        return
    mark = {"passed": "ok     ", "failed": "FAILED ", "skipped": "skipped"}[result.outcome]
    output.echo(f"{mark} {result.id}: {result.text}")
    if result.detail:
        output.echo(f"        {result.detail}")


def _end(results: "list[Result]", *, as_json: bool) -> None:
    counts = Counter(str(result.outcome) for result in results)
    if not as_json:
        output.echo(
            f"\n{counts['passed']} of {len(results)} passed, {counts['failed']} failed, {counts['skipped']} skipped"
        )
    if counts["failed"]:
        raise typer.Exit(exits.FAILED)
