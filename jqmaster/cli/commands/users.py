"""Commands about users."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.groups import list_without_command
from jqmaster.cli.console.http import (
    DEFAULT_MASTER,
    JsonOption,
    MasterOption,
    MasterSession,
    TokenOption,
    path_of,
)
from worker_sdk.command_line.secrets_in_files import read_secret

app = typer.Typer(invoke_without_command=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the user.")]
Role = Annotated[str, typer.Argument(metavar="ROLE", help="Role: viewer, operator or admin.")]
PasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--password-file", help="File with the password; - reads standard input. Default: ask for it."
    ),
]


@app.command()
def add(
    name: Name,
    role: Role,
    password_file: PasswordFile = None,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
) -> None:
    """Add a user. The first one must be an admin. From then on, callers on this machine must log in, too."""
    _check_role(role)
    body = {"name": name, "role": role, "password": _password(password_file)}
    with MasterSession(master, token) as http:
        _, user = http.call("POST", "/api/users", body=body)
    output.say(f"{user['name']}  {user['role']}")


@app.command("list")
def list_users(
    *, master: MasterOption = DEFAULT_MASTER, token: TokenOption = None, as_json: JsonOption = False
) -> None:
    """List the users."""
    with MasterSession(master, token) as http:
        _, answer = http.call("GET", "/api/users")
    output.show_list(
        answer["users"],
        ("NAME", "ROLE", "STATE", "CREATED", "LAST LOGIN"),
        lambda u: (u["name"], u["role"], "disabled" if u["is_disabled"] else "", u["created_at"],
            u["last_login_at"] or "never"),
        as_json=as_json,
    )  # fmt: skip


list_without_command(app, list_users, "The users who log in to the web UI")


@app.command("set-role")
def set_role(
    name: Name, role: Role, master: MasterOption = DEFAULT_MASTER, token: TokenOption = None
) -> None:
    """Change a user's role. Ends the user's sessions."""
    _check_role(role)
    _change(name, {"role": role}, MasterSession(master, token))


@app.command()
def password(
    name: Name,
    password_file: PasswordFile = None,
    master: MasterOption = DEFAULT_MASTER,
    token: TokenOption = None,
) -> None:
    """Set a user's password. Ends the user's sessions."""
    _change(name, {"password": _password(password_file)}, MasterSession(master, token))


@app.command("change-password")
def change_password(
    name: Name,
    old_password_file: Annotated[
        Path | None, typer.Option("--old-password-file", help="File with the current password.")
    ] = None,
    password_file: PasswordFile = None,
    master: MasterOption = DEFAULT_MASTER,
) -> None:
    """Change your own password. Requires the current one and ends your logins."""
    old = (
        read_secret(old_password_file, "present password")
        if old_password_file
        else typer.prompt("Present password", hide_input=True)
    )
    new = _password(password_file)
    with MasterSession(master, None, is_anonymous=True) as http:
        _, session = http.call("POST", "/api/session", body={"user": name, "password": old})
        csrf = {"X-CSRF-Token": session["csrf_token"]}
        try:
            http.call(
                "POST",
                "/api/session/password",
                body={"old_password": old, "new_password": new},
                headers=csrf,
            )
        finally:
            http.call("DELETE", "/api/session", headers=csrf)
    output.say(f"{name}: the password was changed")


@app.command("end-sessions")
def end_sessions(name: Name, master: MasterOption = DEFAULT_MASTER, token: TokenOption = None) -> None:
    """End all logins of a user."""
    with MasterSession(master, token) as http:
        http.call("DELETE", path_of("/api/users", name, "sessions"))
    output.say(f"{name}: all logins ended")


@app.command()
def disable(name: Name, master: MasterOption = DEFAULT_MASTER, token: TokenOption = None) -> None:
    """Disable a user's login. Ends the user's sessions."""
    _change(name, {"is_disabled": True}, MasterSession(master, token))


@app.command()
def enable(name: Name, master: MasterOption = DEFAULT_MASTER, token: TokenOption = None) -> None:
    """Enable a disabled user's login."""
    _change(name, {"is_disabled": False}, MasterSession(master, token))


@app.command()
def remove(name: Name, master: MasterOption = DEFAULT_MASTER, token: TokenOption = None) -> None:
    """Delete a user. Ends the user's sessions."""
    with MasterSession(master, token) as http:
        http.call("DELETE", path_of("/api/users", name))
    output.say(f"{name} removed")


def _check_role(role: str) -> None:
    from jqmaster.domain.identity.access import Role as Known

    if role not in list(Known):
        exits.fail(exits.USAGE, f"{role} is not a role; expected {', '.join(Known)}")


def _change(name: str, body: dict[str, Any], master: MasterSession) -> None:
    with master as http:
        _, user = http.call("PATCH", path_of("/api/users", name), body=body)
    output.say(f"{user['name']}  {user['role']}{'  disabled' if user['is_disabled'] else ''}")


def _password(file: Path | None) -> str:
    if file is not None:
        return read_secret(file, "password")
    if not sys.stdin.isatty():
        exits.fail(exits.USAGE, "there is no terminal to ask for the password; use --password-file")
    asked: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
    return asked
