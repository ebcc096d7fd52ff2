"""The settings of the site. The environment names its database and its master."""

import os
from typing import Any
from urllib.parse import urlsplit

import django

# Either `sqlite:////tmp/microblog.sqlite3` or `postgresql://user@host:port/name`.
DATABASE_URL = urlsplit(os.environ.get("MICROBLOG_DATABASE", "sqlite:///microblog.sqlite3"))
SQLITE: dict[str, Any] = {
    "ENGINE": "examples.microblog.sqlite",
    "NAME": DATABASE_URL.path.removeprefix("/"),
    "OPTIONS": {
        # With these settings, readers do not wait for the writer, and a second writer waits instead of failing.
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        "transaction_mode": "IMMEDIATE",
        "timeout": 30,
    },
}
POSTGRESQL: dict[str, Any] = {
    "ENGINE": "django.db.backends.postgresql",
    "NAME": DATABASE_URL.path.removeprefix("/"),
    "USER": DATABASE_URL.username or "",
    "PASSWORD": DATABASE_URL.password or "",
    "HOST": DATABASE_URL.hostname or "",
    "PORT": DATABASE_URL.port or "",
}
DATABASES = {
    "default": {
        **(SQLITE if DATABASE_URL.scheme == "sqlite" else POSTGRESQL),
        # Keep connections open for many jobs. Without this line, each job would open its own.
        "CONN_MAX_AGE": 60,
    }
}

INSTALLED_APPS = [
    *(["django_tasks"] if django.VERSION < (6, 0) else []),  # the backport of Django's tasks
    "worker_sdk.django",
    "examples.microblog",
]
TASKS = {
    "default": {
        "BACKEND": "worker_sdk.django.JqmasterBackend",
        "OPTIONS": {
            "master": os.environ.get("JQMASTER_URL", "http://127.0.0.1:8080"),
            # The author of a post does not wait until the master has the jobs.
            "push_in_background": True,
        },
    }
}

# Only links below this address are fetched. Otherwise, users could send the worker to other addresses in the network.
CRAWL_BELOW = os.environ.get("MICROBLOG_OUTSIDE", "http://127.0.0.1:8002/")

ROOT_URLCONF = "examples.microblog.urls"
WSGI_APPLICATION = "examples.microblog.wsgi.application"
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
]
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}]
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
SECRET_KEY = os.environ.get("MICROBLOG_SECRET_KEY", "of an example that listens on this machine alone")
USE_TZ = True
