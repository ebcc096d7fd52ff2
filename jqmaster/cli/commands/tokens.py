"""Commands about tokens."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.groups import list_without_command
from jqmaster.cli.console.http import DEFAULT_MASTER, JsonOption, Master, MasterOption, TokenOption, path_of

app = typer.Typer(invoke_without_command=True)

OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        help="Write the token into this new file, readable by its owner only, instead of printing it.",
    ),
]
TokenId = Annotated[str, typer.Argument(metavar="ID", help="ID of the token, as `list` shows it.")]


@app.command()
def create(
    label: Annotated[str, typer.Argument(help="For people: what uses it.")],
    *,
    scope: Annotated[
        list[str], typer.Option("--scope", help="push, work, read, operate, admin; may be repeated.")
    ],
    name: Annotated[
        list[str] | None,
        typer.Option(
            "--name",
            help="With scopes push and work only: pattern of the names it may push and run; may be repeated.",
        ),
    ] = None,
    ttl_days: Annotated[
        float | None, typer.Option("--ttl-days", help="It ends after so many days; without, it does not end.")
    ] = None,
    out: OutOption = None,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a token. It is shown this once."""
    body: dict[str, Any] = {"label": label, "scopes": scope, "names": name or []}
    if ttl_days is not None:
        body["ttl_s"] = ttl_days * 86_400
    with _opened(out) as descriptor, Master(master, token) as http:
        _, made = http.call("POST", "/api/tokens", body=body)
        _hand_over(made, descriptor, out, as_json)


@app.command("list")
def list_tokens(
    *, master: MasterOption = DEFAULT_MASTER, token: TokenOption = None, as_json: JsonOption = False
) -> None:
    """List the tokens, the newest first; those of the settings are not among them."""
    with Master(master, token) as http:
        _, answer = http.call("GET", "/api/tokens")
    output.show_list(
        answer["tokens"],
        ("ID", "LABEL", "SCOPES", "NAMES", "CREATED", "BY", "EXPIRES", "LAST USED"),
        lambda t: (t["id"], t["label"], " ".join(t["scopes"]), " ".join(t["names"]), t["created_at"], t["created_by"],
                   t["expires_at"] or "never", t["last_used_at"] or "never"),
        as_json=as_json,
    )  # fmt: skip


list_without_command(app, list_tokens, "The tokens that programs call masters with")


@app.command()
def rotate(
    token_id: TokenId,
    *,
    overlap_hours: Annotated[float, typer.Option(min=0, help="The old one goes on for so long.")] = 24,
    out: OutOption = None,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make another token for the same, while the old one goes on for a while."""
    with _opened(out) as descriptor, Master(master, token) as http:
        path = path_of("/api/tokens", token_id, "rotate")
        _, made = http.call("POST", path, body={"overlap_s": overlap_hours * 3600})
        _hand_over(made, descriptor, out, as_json)


@app.command()
def revoke(token_id: TokenId, master: MasterOption = DEFAULT_MASTER, token: TokenOption = None) -> None:
    """End a token, on all masters within 5 s."""
    with Master(master, token) as http:
        http.call("DELETE", path_of("/api/tokens", token_id))
    output.say(f"{token_id} revoked")


class _opened:  # noqa: N801  reads as a function
    """The new file, opened before anything is made: a token that cannot be written down is lost."""

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


def _hand_over(made: dict[str, Any], descriptor: int | None, out: Path | None, as_json: bool) -> None:
    if descriptor is not None:
        text = made.pop("token")
        os.write(descriptor, f"{text}\n".encode())
        os.fsync(descriptor)
    if as_json:
        output.say_json(made)
    elif out is not None:
        output.say(f"token {made['id']} is in {out}")
    else:
        typer.echo(f"token {made['id']}, shown this once:", err=True)
        output.say(made["token"])
