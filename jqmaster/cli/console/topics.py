"""Pages of `jqmaster help TOPIC` that concern several commands."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from jqmaster.cli.console.exits import TABLE
from worker_sdk.command_line.options import OPTIONS


class ClientVariable(NamedTuple):
    """One or several environment variables of commands, workers and pushers. `option`: the option that takes
    precedence."""

    names: tuple[str, ...]
    option: str
    meaning: str


_DECLARED: Final = (
    ClientVariable(
        ("JQMASTER_URL",), "--master",
        "Address of the master, or several, separated by blanks. Workers and pushers try them in turn; commands "
        "use the first that accepts a connection.",
    ),
    ClientVariable(
        ("JQMASTER_NAMESPACE",), "--namespace",
        "Namespace of commands, workers and pushers. An address that names a namespace keeps it. Default: `default`.",
    ),
    ClientVariable(("JQMASTER_TOKEN",), "", "Bearer token."),
    ClientVariable(
        ("JQMASTER_TOKEN_FILE",), "--token-file",
        "File that holds the token, for commands only. It takes precedence over `JQMASTER_TOKEN`.",
    ),
    ClientVariable(
        ("JQMASTER_CLIENT_CAFILE",), "",
        "CA certificates (PEM) that sign the masters' certificates. Default: the system's CA certificates.",
    ),
    ClientVariable(
        ("JQMASTER_BACKUP_PASSPHRASE",), "--passphrase-file",
        "Passphrase for backups. `jqmaster backup` encrypts a backup with it, and `verify` and `restore` "
        "read the backup with it. A passphrase file takes precedence.",
    ),
    ClientVariable(
        ("JQMASTER_CLIENT_CERTFILE", "JQMASTER_CLIENT_KEYFILE"), "",
        "Certificate and key (PEM) to present to masters.",
    ),
    ClientVariable(
        ("JQMASTER_WORKER_CERTFILE", "JQMASTER_WORKER_KEYFILE"), "",
        "Certificate and key (PEM) with which a worker serves HTTPS.",
    ),
    ClientVariable(
        ("JQMASTER_WORKER_CLIENT_CAFILE",), "",
        "CA certificates (PEM). If set, the worker accepts only masters with a certificate that one of "
        "these CAs signed.",
    ),
    ClientVariable(
        ("JQMASTER_HEALTH_FILE",), "",
        "File that a worker touches while a master answers its heartbeats. `jqmaster healthcheck` checks "
        "the time of the file.",
    ),
)  # fmt: skip
_NAMED: Final = {name for one in _DECLARED for name in one.names}
# The options of `jqmaster worker` and `python -m worker_sdk worker` add their variables.
VARIABLES: Final = (
    *_DECLARED,
    *(
        ClientVariable((one.variable,), one.flag, one.help)
        for one in OPTIONS
        if one.variable is not None and one.variable not in _NAMED
    ),
)

_TIMES: Final = """\
Options such as --run-at, --since and --until take an instant of ISO 8601 with an offset from UTC, or a date alone,
which means its start in UTC:

  2026-11-21T04:30:00Z    2026-11-21T13:30:00+09:00    2026-11-21

--for takes a length of time in seconds, minutes, hours or days:

  90s    30m    2h    7d
"""
_JSON: Final = """\
With --json, a command prints its answer for programs: one line of JSON for each object, in the form of the API. A
list has one line for each entry, so that tools can read it while it arrives. Other messages go to standard error.
The exit code tells whether the command succeeded (jqmaster help exit-codes).

  jqmaster jobs --state failed --json | jq -r .id | xargs jqmaster retry

An argument that takes JSON also takes @FILE for a file with JSON, and - for standard input. Text needs its quotes:
'"text"'.
"""
_MATCHERS: Final = """\
A matcher selects jobs for a constraint, a pause or a notice. It is a map in JSON:

  {"field": "name", "op": "glob", "value": "mail.*"}      names that begin with mail.
  {"field": "tags", "op": "eq", "value": "import"}        jobs with this tag
  {"field": "argument.customer", "op": "eq", "value": 42}  a value inside the argument
  {"all": [MATCHER, MATCHER]}   {"any": [MATCHER, MATCHER]}   {"not": MATCHER}

Try one on the jobs that wait now: jqmaster constraints preview 'MATCHER'
"""


def _exit_codes() -> str:
    lines = "\n".join(f"  {code}  {meaning}" for code, meaning in TABLE)
    return f"Every command ends with one of these codes:\n\n{lines}\n"


def _variables() -> str:
    parts = []
    for one in VARIABLES:
        option = f"  ({one.option})" if one.option else ""
        parts.append(f"  {', '.join(one.names)}{option}\n      {one.meaning.replace('`', '')}\n")
    return (
        "Variables of the commands, and of workers and pushers. The option takes precedence. The settings of masters "
        "are\nvariables, too: docs/config.md.\n\n" + "".join(parts)
    )


TOPICS: Final[Mapping[str, Callable[[], str]]] = {
    "exit-codes": _exit_codes,
    "json": lambda: _JSON,
    "matchers": lambda: _MATCHERS,
    "times": lambda: _TIMES,
    "variables": _variables,
}
