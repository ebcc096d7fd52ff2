"""Generate docs/config.md from the settings and the exit codes, and docs/errors.md from the problem codes: `python -m
jqmaster.cli.docs --write`."""

import sys
import types
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from jqmaster.api.http.problem_codes import CODES, ProblemCode
from jqmaster.cli.console.exits import TABLE
from jqmaster.cli.console.topics import VARIABLES, ClientVariable
from jqmaster.config import Settings
from jqmaster.domain.identity.access import Scope
from jqmaster.service.operations.settings_catalog import CATALOG, OVERRIDABLE

TARGET = Path("docs/config.md")
NAMES = Path("worker_sdk/transport/setting_names.py")
ERRORS = Path("docs/errors.md")

_HEAD = """\
# Settings

Written by `make docs` from `jqmaster/config/`; do not edit.

A setting comes from the first of these sources that has it:

1. an option of `jqmaster serve`
2. a variable `JQMASTER_…`
3. the TOML file that `--config` or `JQMASTER_CONFIG` names; its keys are the names below
4. the default

Unknown names in the file are refused. Separate the entries of a list in a variable by blanks: `JQMASTER_ALLOWED_HOSTS="jobs.example.org jobs.internal"`.

Settings with *yes* at run time can be changed on all running masters at once (`jqmaster settings set NAME=VALUE`,
`PATCH /api/settings`). Such a change takes precedence over all sources above, until `jqmaster settings reset NAME`. A
[namespace](growth.md#settings-of-a-namespace) can override those with *yes, by namespace*.

| Setting | Variable | Type | Default | Run time | Meaning |
|---|---|---|---|---|---|
"""

_ERRORS_HEAD = """\
# Errors

Written by `make docs` from `jqmaster/api/http/problem_codes.py`; do not edit.

A master answers an error as a problem ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)) of at most 4 KiB:

```json
{"type": "about:blank", "title": "Not valid", "status": 422, "code": "invalid",
 "detail": "priority: Input should be a valid integer, not the text 'high'",
 "errors": [{"loc": ["priority"], "msg": "Input should be a valid integer, not the text 'high'"}]}
```

* Programs should read `code` and the status. A new version may send codes that this page does not list: treat an unknown
  code by its status.
* `detail` is for people and may change. `errors` lists each invalid field (`loc`, its path from the outside in) and what is
  wrong with it (`msg`). `detail` repeats the first.
* A **429** or **503** has `Retry-After`, in seconds. A request that got 429 had no effect. For a 503, the table says whether
  the request had no effect or may have had one; treat an unknown code of status 503 like `outcome_unknown`. It is safe to
  repeat a request with the same ID.
* A **500** is an internal error of the master. A 502 or 504 comes from a proxy; treat it like `outcome_unknown`.
* If the connection breaks before the answer, or the caller gives up, the request may have taken effect: repeat it with the
  same ID.

| Code | Status | When | What to do |
|---|---|---|---|
"""

_CLIENTS = """
## Variables of the client commands, workers and pushers

| Variable | Option | Meaning |
|---|---|---|
"""

_EXITS = """
## Exit codes

| Code | Meaning |
|---|---|
"""


def config_document() -> str:
    rows = [_row(name, field) for name, field in Settings.model_fields.items()]
    codes = [f"| {code} | {meaning} |\n" for code, meaning in TABLE]
    return "".join([_HEAD, *rows, _CLIENTS, *map(_variable_row, VARIABLES), _EXITS, *codes])


def _variable_row(one: ClientVariable) -> str:
    option = f"`{one.option}` " if one.option else ""
    return f"| {', '.join(f'`{name}`' for name in one.names)} | {option}| {one.meaning} |\n"


def errors_document() -> str:
    rows = [
        f"| `{entry.code}` | {', '.join(map(str, entry.statuses))} | {entry.when}{_effect_of(entry)} | {entry.remedy} |\n"
        for entry in sorted(CODES, key=lambda entry: (entry.statuses[0], entry.code))
    ]
    return _ERRORS_HEAD + "".join(rows)


def _effect_of(entry: ProblemCode) -> str:
    if HTTPStatus.SERVICE_UNAVAILABLE not in entry.statuses:
        return ""
    return f" The request {'had no effect' if entry.had_no_effect else 'may have had an effect'}."


def _row(name: str, field: FieldInfo) -> str:
    cells = [
        f"`{name}`",
        f"`JQMASTER_{name.upper()}`",
        _type_text(field),
        _default_text(field),
        _run_time(name),
        field.description or "",
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def names_module() -> str:
    """Return the source of the module with the names of the masters' settings, for workers and pushers."""
    names = "".join(f'    "{name}",\n' for name in sorted(Settings.model_fields))
    return (
        '"""Names of the masters\' settings. `make docs` writes this module."""\n\n'
        "from typing import Final\n\n"
        f"SETTING_NAMES: Final = (\n{names})\n"
    )


def _run_time(name: str) -> str:
    scope = CATALOG[name].change_scope
    if scope is None:
        return ""
    return (
        "yes, by namespace" if name in OVERRIDABLE else "yes, by an admin" if scope == Scope.ADMIN else "yes"
    )


def _type_text(field: FieldInfo) -> str:
    limits = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    bounds = [
        f"{sign} {getattr(m, word)}"
        for m in field.metadata
        for word, sign in limits.items()
        if hasattr(m, word)
    ]
    return ", ".join([_name(field.annotation), *bounds])


def _name(annotation: Any) -> str:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in args)
    if origin in (Union, types.UnionType):
        return " or ".join(_name(arg) for arg in args if arg is not type(None))
    if origin is list:
        return f"list of {_name(args[0])}"
    if origin is dict:
        return "tables, secret"
    return {
        "str": "text",
        "SecretStr": "text, secret",
        "int": "integer",
        "bool": "`true` or `false`",
        "float": "number",
        "Path": "path",
    }[annotation.__name__]


def _default_text(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is None or value in ([], {}):
        return "none"
    if isinstance(value, list):
        return ", ".join(f"`{item}`" for item in value)
    return f"`{value}`"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        TARGET.write_text(config_document(), "utf-8")
        NAMES.write_text(names_module(), "utf-8")
        ERRORS.write_text(errors_document(), "utf-8")
    else:
        sys.stdout.write(config_document())
        sys.stdout.write(errors_document())
