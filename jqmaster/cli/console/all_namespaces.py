"""`--namespace '*'`: run a read-only command in each namespace, and show all results together."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.http import MasterSession
from worker_sdk.command_line.ends import tell
from worker_sdk.transport.namespaces import check_one_namespace

ALL: Final = "*"

Row = Callable[[dict[str, Any]], Sequence[object]]


class _NotThereError(Exception):
    """This namespace does not have the object."""


class _OneOfAll(MasterSession):
    """A session in one of all namespaces. It collects the rows of a list, and prints the name of the namespace above
    other texts."""

    def __init__(self, url: str, token_file: Path | None, namespace: str, *, as_json: bool) -> None:
        super().__init__(url, token_file, namespace=namespace, as_json=as_json)
        self.namespace = namespace
        self.columns: Sequence[str] = ()
        self.rows: list[Sequence[object]] = []

    def call(
        self, method: str, path: str, *, admit: Container[int] = (), **options: Any
    ) -> "tuple[int, Any]":
        if method != "GET":
            exits.fail(exits.USAGE, f"--namespace '{ALL}' is for reading: name the namespace to change")
        status, answer = super().call(method, path, admit=_Also(404, admit), **options)
        if status == 404 and 404 not in admit:
            raise _NotThereError
        return status, answer

    def says_json(self, answer: Any) -> bool:
        if self.as_json:
            output.say_json(self._named(answer))
        else:
            output.say(f"In {self.namespace}:")
        return self.as_json

    def show_list(
        self,
        found: Iterable[dict[str, Any]],
        columns: Sequence[str],
        row: Row,
        *,
        limit: int | None = None,
        more: str = "",
    ) -> None:
        if self.as_json:
            for one in found:
                output.say_json(self._named(one))
        else:
            self.columns = columns
            self.rows += [(self.namespace, *row(one)) for one in found]
            self.tell_of_limit(found, limit, more, where=f" of namespace {self.namespace}")

    def _named(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        return {"namespace": self.namespace, **answer}


class _Also(Container[int]):
    def __init__(self, status: int, others: Container[int]) -> None:
        self._status = status
        self._others = others

    def __contains__(self, status: object) -> bool:
        return status == self._status or status in self._others


def in_all_namespaces(
    command: Callable[[MasterSession], None], url: str, token_file: Path | None, *, as_json: bool
) -> None:
    """Run a command in each open namespace, and show all results together.

    If some namespaces cannot answer, show the results of the others, and end with the exit code of the first
    namespace that failed. If no namespace has the object, end with NOT_FOUND."""
    with MasterSession(url, token_file, as_json=as_json) as http:
        url = http.url
        try:
            check_one_namespace(url, ALL)
        except ValueError as error:
            exits.fail(exits.USAGE, f"--namespace: {error}")
        listed = http.get("/api/namespaces")["namespaces"]
    columns: Sequence[str] = ()
    rows: list[Sequence[object]] = []
    codes: list[int] = []
    has_any = False
    for name in [one["name"] for one in listed if one["state"] != "closed"]:
        with _OneOfAll(url, token_file, name, as_json=as_json) as one:
            try:
                command(one)
                has_any = True
            except _NotThereError:
                pass
            except typer.Exit as ended:
                tell(f"  The namespace {name} is missing in this output.")
                codes.append(ended.exit_code)
            columns = columns or one.columns
            rows += one.rows
    if columns:
        output.show_table(("NAMESPACE", *columns), rows)
    if codes:
        raise typer.Exit(codes[0])
    if not has_any:
        exits.fail(exits.NOT_FOUND, "no open namespace has it")
