"""System checks of the backend, each with its remedy."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from django.conf import settings
from django.core import checks
from django.core.management import get_commands

from worker_sdk.django.options import ENQUEUE, JOB_OPTIONS, OPTIONS, is_installed, labels_fault, options_of
from worker_sdk.environment import configuration
from worker_sdk.pusher.jobs import make_job
from worker_sdk.transport.namespaces import check_name, check_one_namespace


def problems_of(backend: Any) -> Iterator[checks.CheckMessage]:
    """Yield the faults in the settings of a backend."""
    where = f"TASKS[{backend.alias!r}]"
    options = backend.options
    mode = options.get("enqueue", "outbox")
    if unknown := sorted(options.keys() - OPTIONS):
        yield _error(
            "E001", f"{where}: unknown OPTIONS: {', '.join(unknown)}.", f"Use {', '.join(sorted(OPTIONS))}."
        )
    if mode not in ENQUEUE:
        yield _error("E002", f"{where}: enqueue is {mode!r}.", f"Use one of {', '.join(ENQUEUE)}.")
    if not isinstance(in_background := options.get("push_in_background", False), bool) or (
        in_background and mode != "outbox"
    ):
        yield _error(
            "E011",
            f"{where}: push_in_background is {in_background!r}, and enqueue {mode!r}.",
            'Set it to True or False. It needs enqueue to be "outbox".',
        )
    if mode == "outbox" and not is_installed():
        yield _error(
            "E003",
            f"{where}: the outbox has no table.",
            'Add "worker_sdk.django" to INSTALLED_APPS and run manage.py migrate, or set enqueue to "on_commit".',
        )
    if (database := options.get("database", "default")) not in settings.DATABASES:
        yield _error("E004", f"{where}: there is no database {database!r}.", "Use an alias of DATABASES.")
    if fault := labels_fault(options.get("requires")):
        yield _error("E010", f"{where}: {fault}.", 'Use texts, such as {"gpu": "1"}.')
    if fault := _namespace_fault(options):
        yield _error("E012", f"{where}: {fault}.", 'Set namespace to a name such as "shop".')
    given = {name: options.get(name) for name in JOB_OPTIONS if name != "requires"}
    try:
        make_job("check", None, **options_of(None, given))
    except (TypeError, ValueError) as exc:
        yield _error("E005", f"{where}: the options of jobs are not valid: {exc}", "Correct OPTIONS.")
    if missing := sorted(set(options.get("commands", ())) - get_commands().keys()):
        yield _error(
            "E006",
            f"{where}: there are no management commands {', '.join(missing)}.",
            "Correct the names in commands, or add their application to INSTALLED_APPS.",
        )
    if not backend.queues:
        yield checks.Warning(
            f"{where}: QUEUES is empty, so that workers know only the queues that tasks declare.",
            hint="List in QUEUES the names that using(queue_name=…) may choose.",
            id="jqmaster.W001",
        )
    has_master = options.get("master") or os.environ.get("JQMASTER_URL") or configuration().url
    if not has_master and not settings.DEBUG:
        yield checks.Warning(
            f"{where}: no master is named; jobs go to http://127.0.0.1:8080.",
            hint="Set master in OPTIONS, or the variable JQMASTER_URL.",
            id="jqmaster.W002",
        )


def _namespace_fault(options: Mapping[str, Any]) -> str:
    """Return the fault of the option `namespace`, or an empty text."""
    namespace, master = options.get("namespace"), options.get("master") or ()
    if namespace is None:
        return ""
    if not isinstance(namespace, str):
        return f"namespace is {namespace!r}, and not a text"
    try:
        check_name(namespace)
        for address in [master] if isinstance(master, str) else master:
            check_one_namespace(address, namespace)
    except ValueError as exc:
        return str(exc)
    return ""


def _error(number: str, message: str, hint: str) -> Any:
    return checks.Error(message, hint=hint, id=f"jqmaster.{number}")
