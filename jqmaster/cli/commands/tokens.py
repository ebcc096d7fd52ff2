"""Commands about tokens."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.groups import CommandGroup
from jqmaster.cli.console.http import MasterSession, path_of

app = CommandGroup()

OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        help="Write the token to this new file, readable only by its owner, instead of printing it.",
    ),
]
TokenId = Annotated[str, typer.Argument(metavar="ID", help="ID of the token, as `list` shows it.")]


@app.command()
def create(
    http: MasterSession,
    label: Annotated[str, typer.Argument(help="Text for people that says what the token is used for.")],
    *,
    scope: Annotated[
        list[str], typer.Option("--scope", help="Scope: push, work, read, operate or admin. Can be repeated.")
    ],
    name: Annotated[
        list[str] | None,
        typer.Option(
            "--name",
            help="Pattern of the job names that the token may push and run. "
            "Only with the scopes push and work. Can be repeated.",
        ),
    ] = None,
    namespaces: Annotated[
        list[str] | None,
        typer.Option(
            "--only-in",
            metavar="NAMESPACE",
            help="Namespace to which the token gives access. Can be repeated. Default: all namespaces.",
        ),
    ] = None,
    ttl_days: Annotated[
        float | None,
        typer.Option("--ttl-days", help="Days until the token expires. Default: it does not expire."),
    ] = None,
    out: OutOption = None,
) -> None:
    """Create a token. It is shown only once."""
    body: dict[str, Any] = {"label": label, "scopes": scope}
    if name and not all(name):
        # Refuse an empty pattern, which an unset shell variable gives. Otherwise, the token would be valid for
        # all names.
        exits.fail(exits.USAGE, "--name: empty; omit it to allow all names")
    if name:
        body["names"] = name
    if namespaces:
        body["namespaces"] = namespaces
    if ttl_days is not None:
        body["ttl_s"] = ttl_days * 86_400
    with _opened(out) as descriptor:
        _hand_over(http, http.post("/api/tokens", body), descriptor, out)


@app.listing("The tokens that programs use")
def list_tokens(http: MasterSession) -> None:
    """List the tokens, newest first. Tokens from the settings are not listed."""
    http.show_list(
        http.get("/api/tokens")["tokens"],
        ("ID", "LABEL", "SCOPES", "NAMES", "NAMESPACES", "CREATED", "BY", "EXPIRES", "LAST USED"),
        lambda t: (t["id"], t["label"], " ".join(t["scopes"]), " ".join(t["names"]), " ".join(t["namespaces"]),
                   t["created_at"], t["created_by"], t["expires_at"] or "never", t["last_used_at"] or "never"),
    )  # fmt: skip


@app.command()
def rotate(
    http: MasterSession,
    token_id: TokenId,
    *,
    overlap_hours: Annotated[
        float, typer.Option(min=0, help="Time for which the old token stays valid.")
    ] = 24,
    out: OutOption = None,
) -> None:
    """Replace a token by a new token with the same rights. The old token stays valid for some time."""
    body = {"overlap_s": overlap_hours * 3600}
    with _opened(out) as descriptor:
        _hand_over(http, http.post(path_of("/api/tokens", token_id, "rotate"), body), descriptor, out)


@app.command()
def revoke(http: MasterSession, token_id: TokenId) -> None:
    """Revoke a token on all masters within 5 s."""
    http.call("DELETE", path_of("/api/tokens", token_id))
    http.say({"id": token_id, "revoked": True}, f"{token_id} revoked")


class _opened:  # noqa: N801  reads as a function
    """Open the new file before the token is created. Otherwise, the token would be lost if the file cannot be
    written."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._descriptor: int | None = None

    def __enter__(self) -> int | None:
        if self._file is not None:
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                self._descriptor = os.open(self._file, flags, 0o600)
            except OSError as error:
                exits.fail(exits.USAGE, f"--out: {error}")
        return self._descriptor

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self._descriptor is not None and self._file is not None:
            os.close(self._descriptor)
            if kind is not None:
                self._file.unlink(missing_ok=True)


def _hand_over(http: MasterSession, made: dict[str, Any], descriptor: int | None, out: Path | None) -> None:
    if descriptor is not None:
        text = made.pop("token")
        os.write(descriptor, f"{text}\n".encode())
        os.fsync(descriptor)
    if http.says_json(made):
        return
    if out is not None:
        output.say(f"token {made['id']} is in {out}")
    else:
        output.echo(f"token {made['id']}, shown only once:", is_error=True)
        output.say(made["token"])
