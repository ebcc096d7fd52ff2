"""The options of the command that runs workers, in one table: `python -m worker_sdk worker` and `jqmaster worker`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from worker_sdk.environment import LOG_LEVELS

TARGET_METAVAR: Final = "[MODULE:OBJECT]"
TARGET_HELP: Final = "A Worker or Tasks, for example app.tasks:tasks, in the current directory."
WORKER_HELP: Final = "Run the worker_sdk.Worker or worker_sdk.Tasks at MODULE:OBJECT."


@dataclass(frozen=True, slots=True)
class WorkerOption:
    """One option.

    * `name`: the keyword argument that gets the value of the option.
    * `kind`: the type of a value.
    * `variable`: the environment variable that sets the option.
    * `least`, `most`: bounds of a number.
    """

    name: str
    flag: str
    help: str
    kind: type = str
    default: Any = None
    variable: str | None = None
    metavar: str | None = None
    is_list: bool = False
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    panel: str | None = None


_FOUND: Final = "What to run"
_NETWORK: Final = "Network"
_PROCESS: Final = "Process"

OPTIONS: Final = (
    WorkerOption(
        "autodiscover", "--autodiscover", metavar="PACKAGE", is_list=True, panel=_FOUND,
        help="Run all Tasks in the modules of this package that are named tasks. Can be repeated.",
    ),
    WorkerOption(
        "command", "--command", metavar="NAME=ARGV", is_list=True, panel=_FOUND,
        help="Run a command for the jobs of this name: 'report.nightly=python report.py --day {day}'. {day} is an "
        "argument of the job. Can be repeated.",
    ),
    WorkerOption(
        "master", "--master", variable="JQMASTER_URL", is_list=True, panel=_NETWORK,
        help="Address of the master, or several separated by blanks. It replaces the address in the code. Can be "
        "repeated.",
    ),
    WorkerOption(
        "namespace", "--namespace", variable="JQMASTER_NAMESPACE", panel=_NETWORK,
        help="Namespace at the master. An address that names a namespace keeps it.",
    ),
    WorkerOption(
        "namespaces", "--namespaces", metavar="NAME=SHARE", variable="JQMASTER_WORKER_NAMESPACES", is_list=True,
        panel=_NETWORK,
        help="A namespace to work in, with its share of the slots, such as shop=3. Can be repeated; the variable holds "
        "all of them: shop=3 mail=1.",
    ),
    WorkerOption(
        "token", "--token-file", kind=Path, variable="JQMASTER_TOKEN_FILE", panel=_NETWORK,
        help="File with the bearer token. Default: the variable JQMASTER_TOKEN.",
    ),
    WorkerOption(
        "host", "--host", variable="JQMASTER_WORKER_HOST", panel=_NETWORK,
        help="Address to listen on. Default: 127.0.0.1, which only a master on this machine reaches.",
    ),
    WorkerOption(
        "port", "--port", kind=int, panel=_NETWORK, help="Port to listen on. 0 lets the system choose one."
    ),
    WorkerOption(
        "url", "--url", variable="JQMASTER_WORKER_URL", panel=_NETWORK,
        help="URL at which the master reaches this worker, if it differs from the listening address.",
    ),
    WorkerOption(
        "pull", "--pull", kind=bool, variable="JQMASTER_WORKER_PULL", panel=_NETWORK,
        help="Poll the master for jobs instead of listening, because the master cannot reach this worker.",
    ),
    WorkerOption("max_jobs", "--max-jobs", kind=int, help="Maximum number of jobs at a time."),
    WorkerOption(
        "label", "--label", metavar="NAME=VALUE", is_list=True,
        help="Label that jobs can require, added to those of the Worker object. Can be repeated.",
    ),
    WorkerOption(
        "grace", "--grace", kind=float, least=0,
        help="Seconds that running jobs have to finish when the worker is told to stop.",
    ),
    WorkerOption(
        "processes", "--processes", kind=int, default=1, least=1, most=64, panel=_PROCESS,
        help="Number of worker processes, each with its own --max-jobs. Use several for CPU-bound handlers.",
    ),
    WorkerOption(
        "burst", "--burst", kind=bool, default=False, panel=_PROCESS,
        help="Run until nothing is left to do, and exit; 1 if a job failed.",
    ),
    WorkerOption(
        "burst_wait", "--burst-wait", kind=float, default=5.0, least=0.1, panel=_PROCESS,
        help="With --burst: exit after this many seconds without a job.",
    ),
    WorkerOption(
        "reload", "--reload", kind=bool, default=False, panel=_PROCESS,
        help="Start again when a Python file below this directory changes.",
    ),
    WorkerOption(
        "log_level", "--log-level", choices=LOG_LEVELS, variable="JQMASTER_WORKER_LOG_LEVEL", panel=_PROCESS,
        help="Lowest level that the worker logs, unless the program has set up logging itself. debug follows each job "
        "through this worker. Default: info.",
    ),
)  # fmt: skip

DEFAULTS: Final[Mapping[str, Any]] = {"target": None, **{one.name: one.default for one in OPTIONS}}
