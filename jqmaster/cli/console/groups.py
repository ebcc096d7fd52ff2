"""Commands that call a master: their common options, groups and functions."""

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer

from jqmaster.cli.console import exits
from jqmaster.cli.console.all_namespaces import ALL, in_all_namespaces
from jqmaster.cli.console.documents import document_in
from jqmaster.cli.console.help_pages import CommandWithExamples, GroupWithExamples
from jqmaster.cli.console.http import (
    DEFAULT_MASTER,
    JsonOption,
    MasterOption,
    MasterSession,
    NamespaceOption,
    TokenOption,
    path_of,
)

Function = Callable[..., None]

_OPTIONS: Final = tuple(
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
    for name, default, annotation in (
        ("master", DEFAULT_MASTER, MasterOption),
        ("namespace", None, NamespaceOption),
        ("token", None, TokenOption),
        ("as_json", False, JsonOption),
    )
)

IfMatchOption = Annotated[str | None, typer.Option(help="Apply only if the object still has this ETag.")]
NewOption = Annotated[bool, typer.Option("--new", help="Apply only if no object has this name.")]
FileArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="TOML or JSON file; - reads JSON from standard input.")
]


def with_session(command: Function, *, has_namespace: bool = True, is_reading: bool = False) -> Function:
    """Return a function for Typer.

    If the first parameter of a command is a MasterSession, options replace this parameter: the address, the
    token, the form of the output and, with `has_namespace`, the namespace. The session is made from these
    options.

    `is_reading`: the command changes nothing, and shows a list, or an object with `says_json`. So `--namespace
    '*'` can run it in all namespaces.
    """
    signature = inspect.signature(command)
    parameters = list(signature.parameters.values())
    if not parameters or parameters[0].annotation is not MasterSession:
        return command

    @functools.wraps(command)
    def run(*arguments: Any, master: str = DEFAULT_MASTER, namespace: str | None = None, token: Path | None = None,
            as_json: bool = False, **options: Any) -> None:  # fmt: skip
        if namespace == ALL:
            if not is_reading:
                exits.fail(exits.USAGE, f"--namespace '{ALL}' is for lists and `why`: name one namespace")
            in_all_namespaces(
                lambda http: command(http, *arguments, **options), master, token, as_json=as_json
            )
            return
        with MasterSession(
            master, token, namespace=namespace, has_namespace=has_namespace, as_json=as_json
        ) as http:
            command(http, *arguments, **options)

    described = [one for one in _OPTIONS if has_namespace or one.name != "namespace"]
    return _declare(run, [*parameters[1:], *described])


def _declare(function: Function, parameters: Iterable[inspect.Parameter]) -> Function:
    """Set the parameters that Typer sees, and return the function."""
    named = list(parameters)
    function.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    function.__annotations__ = {one.name: one.annotation for one in named}
    return function


class CommandGroup(typer.Typer):
    """A group of commands. The first parameter of a command may be a MasterSession. `has_namespace`: False if the
    commands concern the whole installation."""

    def __init__(self, *, has_namespace: bool = True, **options: Any) -> None:
        super().__init__(cls=GroupWithExamples, **options)
        self._has_namespace = has_namespace

    def command(  # type: ignore[override]
        self, name: str | None = None, *, is_reading: bool = False, **options: Any
    ) -> Callable[[Function], Function]:
        """Register a command, like Typer's `command`. `is_reading`: see `with_session`."""

        def register(command: Function) -> Function:
            options.setdefault("cls", CommandWithExamples)
            super(CommandGroup, self).command(name, **options)(
                with_session(command, has_namespace=self._has_namespace, is_reading=is_reading)
            )
            return command

        return register

    def listing(self, text: str) -> Callable[[Function], Function]:
        """Register the command `list`, which also runs if no command is given. `text` is the help of the group."""

        def register(command: Function) -> Function:
            self.command("list", is_reading=True)(command)
            listing = with_session(command, has_namespace=self._has_namespace, is_reading=True)

            def group(context: typer.Context, **options: Any) -> None:
                if context.invoked_subcommand is None:
                    listing(**options)
                    return
                for name in options:
                    source = context.get_parameter_source(name)
                    if source is not None and source.name == "COMMANDLINE":
                        exits.fail(
                            exits.USAGE,
                            f"options must come after the command: jqmaster {context.info_name} "
                            f"{context.invoked_subcommand} …",
                        )

            context = inspect.Parameter(
                "context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
            )
            _declare(group, [context, *inspect.signature(listing).parameters.values()])
            self.callback(help=f"{text}. Without a command, list them.", invoke_without_command=True)(group)
            return command

        return register


class NamedObjects:
    """Named objects of one kind, such as definitions. `path`: the path of their collection."""

    def __init__(self, kind: str, path: str) -> None:
        self._kind = kind
        self._path = path

    def path(self, name: str, *rest: str) -> str:
        """Return the path of an object, or of a part of it. End the command if the name is not valid."""
        if "/" in name:
            exits.fail(exits.NOT_FOUND, f"no {self._kind} {name}: a name has A-Z a-z 0-9 _ . : -")
        return path_of(self._path, name, *rest)

    def put(
        self, http: MasterSession, name: str, body: Any, *, new: bool, if_match: str | None
    ) -> tuple[bool, dict[str, Any]]:
        """Create or replace an object. Return whether it is new, and its new state."""
        headers = {"If-None-Match": "*"} if new else if_match_of(if_match)
        status, answer = http.call("PUT", self.path(name), body=body, headers=headers)
        return status == 201, answer

    def add_put(self, app: CommandGroup, shown: Callable[[Mapping[str, Any]], str] = lambda _: "") -> None:
        """Add the command that puts an object from a file. `shown` returns the text that follows the object's name."""

        def put(http: MasterSession, name: str, file: FileArgument, *, new: NewOption = False,
                if_match: IfMatchOption = None) -> None:  # fmt: skip
            is_new, answer = self.put(http, name, document_in(file), new=new, if_match=if_match)
            what = "created" if is_new else "is in force"
            http.say(answer, f"{answer['name']}  {what}  {shown(answer)}".rstrip())

        self._add(app, put, f"Create or replace a {self._kind} from a file.")

    def add_delete(self, app: CommandGroup, text: str) -> None:
        """Add the command that deletes an object. `text` is its help."""

        def delete(http: MasterSession, name: str, *, if_match: IfMatchOption = None) -> None:
            http.call("DELETE", self.path(name), headers=if_match_of(if_match))
            http.say({"name": name, "deleted": True}, f"{name}  deleted")

        self._add(app, delete, text)

    def _add(self, app: CommandGroup, command: Function, text: str) -> None:
        told = typer.Argument(metavar="NAME", help=f"Name of the {self._kind}.")
        command.__annotations__["name"] = Annotated[str, told]
        app.command(help=text)(command)


def if_match_of(etag: str | None) -> dict[str, str]:
    """Return the If-Match header for this ETag; empty without an ETag."""
    if etag is None:
        return {}
    bare = etag.strip('"')
    return {"If-Match": f'"{bare}"'}


def post_each(
    http: MasterSession, paths: Iterable[str], text: Callable[[dict[str, Any]], str], *, body: Any = None
) -> NoReturn:
    """Send a POST to each path, and print `text(answer)`, the text about the new state. See `each_of`."""

    def post(path: str) -> None:
        view = http.post(path, body)
        http.say(view, text(view))

    each_of(paths, post)


def delete_each(http: MasterSession, paths: Mapping[str, str], done: str) -> NoReturn:
    """Send a DELETE to each path, and print the object's ID with the word `done`. `paths`: the paths by ID. See
    `each_of`."""

    def delete(one: str) -> None:
        http.call("DELETE", paths[one])
        http.say({"id": one, done.replace(" ", "_"): True}, f"{one}  {done}")

    each_of(paths, delete)


def each_of(keys: Iterable[str], act: Callable[[str], None]) -> NoReturn:
    """Call `act` for each of `keys`, even after a failure. Exit with the code of the last failure."""
    worst = exits.OK
    for key in keys:
        try:
            act(key)
        except typer.Exit as ended:
            worst = ended.exit_code
    raise typer.Exit(worst)


def confirmed(question: str, *, is_given: bool) -> None:
    """Ask for confirmation at the terminal if `--yes` is not given. End the command if there is no terminal or
    the answer is no."""
    if is_given:
        return
    if not sys.stdin.isatty():
        exits.fail(exits.USAGE, "there is no terminal for the confirmation; use --yes")
    typer.confirm(question, abort=True)
