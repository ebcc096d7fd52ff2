"""A Django site with logins and the web UI below `/ops/jobs/`, on its own WSGI or ASGI server."""

import contextlib
import functools
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, Literal

import httpx

from tests.support.cli import clean_environment
from tests.support.waiting import wait_until

SECRET: Final = "between the site and its master"
PASSWORD: Final = "correct horse battery"
PATH: Final = "/ops/jobs/"
_DATABASE: Final = "db.sqlite3"
_SETTINGS: Final = """
from pathlib import Path
SECRET_KEY = "of tests alone"
DEBUG = True
USE_TZ = True
ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = "urls"
LOGIN_REDIRECT_URL = "/"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": Path(__file__).parent / "db.sqlite3"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "worker_sdk.django",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django.middleware.gzip.GZipMiddleware",
]
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "DIRS": [Path(__file__).parent]}]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
JQMASTER_UI = {"master": @MASTERS@, "secret": "@SECRET@"}
"""
_URLS: Final = """
from django.contrib.auth.views import LoginView, LogoutView
from django.urls import include, path
urlpatterns = [
    path("accounts/login/", LoginView.as_view(template_name="login.html")),
    path("accounts/logout/", LogoutView.as_view()),
    path("ops/jobs/", include("worker_sdk.django.ui")),
]
"""
_LOGIN: Final = """<!doctype html><title>Site</title><form method="post">{% csrf_token %}
<label>Name <input name="username"></label><label>Password <input name="password" type="password"></label>
<input type="hidden" name="next" value="{{ next }}"><button>Enter</button></form>"""
_MANAGE: Final = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
"""
_ASGI: Final = """
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
from django.core.asgi import get_asgi_application
application = get_asgi_application()
"""
_PEOPLE: Final = """
from django.contrib.auth.models import Group, Permission, User
def user(name, *permissions, **more):
    one = User.objects.create_user(name, password="@PASSWORD@", **more)
    if permissions:
        group = Group.objects.create(name=name)
        group.permissions.set(Permission.objects.filter(codename__in=permissions))
        one.groups.add(group)
user("vera", "view_jobs")
user("otto", "view_jobs", "operate_jobs")
user("nina")
user("root", is_superuser=True)
"""


def master_settings(site_port: int) -> dict[str, Any]:
    """Return the settings of a master for the site."""
    return {
        "public_url": f"http://127.0.0.1:{site_port}{PATH}",
        "tokens": ["admin:a-token-of-the-admin"],
        "login_user_header": "Remote-User",
        "login_groups_header": "Remote-Groups",
        "login_proxies": ["127.0.0.1/32"],
        "login_proxy_secret": SECRET,
        "group_roles": ["viewer=viewer", "operator=operator", "admin=admin"],
    }


def make_site(directory: Path, masters: list[str]) -> None:
    """Write the site's files, tables and users: vera, otto, nina (without a permission) and root."""
    _write_files(directory, masters)
    (directory / _DATABASE).write_bytes(_database())


def _write_files(directory: Path, masters: list[str]) -> None:
    settings = _SETTINGS.replace("@MASTERS@", repr(masters)).replace("@SECRET@", SECRET)
    files = {
        "settings.py": settings, "urls.py": _URLS, "login.html": _LOGIN, "manage.py": _MANAGE, "asgi.py": _ASGI,
    }  # fmt: skip
    for name, text in files.items():
        (directory / name).write_text(text)


@functools.cache
def _database() -> bytes:
    """Return a database with tables and users. To make it takes longer than most tests of a site."""
    people = _PEOPLE.replace("@PASSWORD@", PASSWORD)
    with tempfile.TemporaryDirectory(prefix="jq-") as name:
        directory = Path(name)
        _write_files(directory, ["http://127.0.0.1:1"])
        for command in (
            ["check", "--fail-level", "WARNING"],
            ["migrate", "-v", "0"],
            ["shell", "-c", people],
        ):
            manage(directory, *command)
        return (directory / _DATABASE).read_bytes()


def manage(directory: Path, *command: str) -> str:
    """Run a management command of the site."""
    done = subprocess.run(
        [sys.executable, "manage.py", *command],
        cwd=directory, env=_environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextlib.asynccontextmanager
async def serving_site(directory: Path, port: int, kind: Literal["wsgi", "asgi"]) -> AsyncIterator[str]:
    """Serve the site with Django's own server or uvicorn, and yield its address."""
    command = (
        ["manage.py", "runserver", "--noreload", f"127.0.0.1:{port}"]
        if kind == "wsgi"
        else ["-m", "uvicorn", "--lifespan", "off", "--port", str(port), "asgi:application"]
    )
    with open(directory / "server.log", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, *command], cwd=directory, env=_environment(), stdout=log, stderr=log
        )
    url = f"http://127.0.0.1:{port}"
    try:
        async with httpx.AsyncClient(trust_env=False) as http:

            async def answers() -> bool:
                assert process.poll() is None, (directory / "server.log").read_text()
                try:
                    return (await http.get(f"{url}/accounts/login/")).status_code == 200
                except httpx.TransportError:
                    return False

            await wait_until(answers, timeout_s=60, what="the site answers")
        yield url
    finally:
        process.terminate()
        process.wait(20)


def _environment() -> dict[str, str]:
    root = str(Path(__file__).parents[2])
    return {**clean_environment(), "PYTHONPATH": root}
