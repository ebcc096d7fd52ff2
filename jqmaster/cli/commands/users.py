"""Commands about users."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from jqmaster.cli.console import exits
from jqmaster.cli.console.groups import CommandGroup
from jqmaster.cli.console.http import DEFAULT_MASTER, JsonOption, MasterOption, MasterSession, path_of
from worker_sdk.command_line.secrets_in_files import read_secret

app = CommandGroup()

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the user.")]
Role = Annotated[
    str, typer.Argument(metavar="ROLE", help="Role in all namespaces: none, viewer, operator or admin.")
]
PasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--password-file", help="File with the password; - reads standard input. Default: ask for it."
    ),
]
NamespaceRoles = Annotated[
    list[str] | None,
    typer.Option(
        "--in",
        metavar="NAMESPACE=ROLE",
        help="Further role in one namespace, such as shop=admin. Can be repeated.",
    ),
]


@app.command()
def add(
    http: MasterSession,
    name: Name,
    role: Role,
    *,
    namespace_roles: NamespaceRoles = None,
    password_file: PasswordFile = None,
) -> None:
    """Add a user. The first user must be an admin. After that, callers on this machine must log in, too."""
    _check_role(role)
    roles = _roles(namespace_roles)
    body: dict[str, Any] = {"name": name, "role": role, "password": _password(password_file)}
    user = http.post("/api/users", body | ({"namespaces": roles} if roles else {}))
    http.say(user, f"{user['name']}  {_shown(user)}")


@app.listing("The users who log in to the web UI")
def list_users(http: MasterSession) -> None:
    """List the users."""
    http.show_list(
        http.get("/api/users")["users"],
        ("NAME", "ROLE", "STATE", "CREATED", "LAST LOGIN"),
        lambda u: (u["name"], _shown(u), "disabled" if u["is_disabled"] else "", u["created_at"],
            u["last_login_at"] or "never"),
    )  # fmt: skip


@app.command("set-role")
def set_role(http: MasterSession, name: Name, role: Role, *, namespace_roles: NamespaceRoles = None) -> None:
    """Change a user's role, or the roles in single namespaces. This ends the user's sessions."""
    _check_role(role)
    _change(http, name, {"role": role, "namespaces": _roles(namespace_roles)})


@app.command()
def password(http: MasterSession, name: Name, password_file: PasswordFile = None) -> None:
    """Set a user's password. This ends the user's sessions."""
    _change(http, name, {"password": _password(password_file)})


@app.command("change-password")
def change_password(
    name: Name,
    old_password_file: Annotated[
        Path | None, typer.Option("--old-password-file", help="File with the current password.")
    ] = None,
    password_file: PasswordFile = None,
    *,
    master: MasterOption = DEFAULT_MASTER,
    as_json: JsonOption = False,
) -> None:
    """Change your own password. This requires the current password, and ends your logins."""
    old = (
        read_secret(old_password_file, "present password")
        if old_password_file
        else typer.prompt("Present password", hide_input=True)
    )
    new = _password(password_file)
    with MasterSession(master, None, as_json=as_json, is_anonymous=True) as http:
        session = http.post("/api/session", {"user": name, "password": old})
        csrf = {"X-CSRF-Token": session["csrf_token"]}
        try:
            body = {"old_password": old, "new_password": new}
            http.call("POST", "/api/session/password", body=body, headers=csrf)
        finally:
            http.call("DELETE", "/api/session", headers=csrf)
        http.say({"name": name, "password_changed": True}, f"{name}: the password was changed")


@app.command("end-sessions")
def end_sessions(http: MasterSession, name: Name) -> None:
    """End all logins of a user."""
    http.call("DELETE", path_of("/api/users", name, "sessions"))
    http.say({"name": name, "sessions_ended": True}, f"{name}: all logins ended")


@app.command()
def disable(http: MasterSession, name: Name) -> None:
    """Disable a user's login. This ends the user's sessions."""
    _change(http, name, {"is_disabled": True})


@app.command()
def enable(http: MasterSession, name: Name) -> None:
    """Enable a disabled user's login."""
    _change(http, name, {"is_disabled": False})


@app.command()
def remove(http: MasterSession, name: Name) -> None:
    """Delete a user. This ends the user's sessions."""
    http.call("DELETE", path_of("/api/users", name))
    http.say({"name": name, "removed": True}, f"{name} removed")


def _check_role(role: str) -> None:
    from jqmaster.domain.identity.access import Role as Known

    if role not in list(Known):
        exits.fail(exits.USAGE, f"{role} is not a role; expected {', '.join(Known)}")


def _roles(entries: list[str] | None) -> dict[str, str]:
    """Return the roles by namespace."""
    found = {}
    for entry in entries or []:
        namespace, sign, role = entry.partition("=")
        if not namespace or not sign:
            exits.fail(exits.USAGE, f"--in {entry}: expected NAMESPACE=ROLE, such as shop=admin")
        _check_role(role)
        found[namespace] = role
    return found


def _shown(user: dict[str, Any]) -> str:
    return " ".join([user["role"], *(f"{name}={role}" for name, role in user["namespaces"].items())])


def _change(http: MasterSession, name: str, body: dict[str, Any]) -> None:
    _, user = http.call("PATCH", path_of("/api/users", name), body=body)
    http.say(user, f"{user['name']}  {_shown(user)}{'  disabled' if user['is_disabled'] else ''}")


def _password(file: Path | None) -> str:
    if file is not None:
        return read_secret(file, "password")
    if not sys.stdin.isatty():
        exits.fail(exits.USAGE, "there is no terminal to ask for the password; use --password-file")
    asked: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
    return asked
