"""`app.conf`: the settings of Celery, with an effect or without."""

import fnmatch
import importlib
import logging
import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, Final

from worker_sdk.celery_compat.guide import GUIDE

logger = logging.getLogger(__name__)

# The supported settings, with their defaults.
_DEFAULTS: Final[Mapping[str, Any]] = {
    "task_always_eager": False,
    "task_eager_propagates": False,
    "task_time_limit": None,
    "task_soft_time_limit": None,
    "task_ignore_result": False,
    "task_default_priority": None,
    "task_routes": None,
    "beat_schedule": {},
    "timezone": None,
    "enable_utc": True,
    "imports": (),
    "include": (),
}
# Settings that are accepted and ignored: they concern brokers, backends and messages, or request the usual behavior of
# jobs.
_OF_BROKERS: Final = re.compile(
    r"broker_.*|(result|accept|redis|database|cache|mongodb|elasticsearch|cassandra|s3|azureblockblob|couchbase|couchdb"
    r"|arangodb|cosmosdbsql|dynamodb|filesystem|consul|event|security)_(?!expires).*|result_backend.*"
    r"|task_(serializer|compression|protocol|publish_retry.*|acks_.*|reject_on_.*|track_started|store_.*|send_sent_event"
    r"|remote_tracebacks|allow_error_cb.*)"
    r"|task_default_(queue|exchange.*|routing_key|delivery_mode|queue_type)|task_queue_max_priority"
    r"|task_create_missing_.*|task_inherit_parent_priority"
    r"|worker_(prefetch_.*|hijack_root_logger|redirect_.*|send_task_events|lost_wait|proc_alive_timeout|pool.*"
    r"|enable_remote_control|cancel_long_running_.*|deduplicate_.*|state_db|timer.*|direct|enable_prefetch_.*"
    r"|soft_shutdown_.*|enable_soft_.*)"
    r"|beat_(scheduler|max_loop_interval|sync_every|cron_starting_deadline|schedule_filename|logfile)"
    r"|deprecated_settings|control_.*"
)
_INSTEAD: Final = {
    "worker_concurrency": "max_jobs= of the Worker, or --max-jobs",
    "worker_max_tasks_per_child": "isolated=True runs each attempt in a process of its own",
    "worker_max_memory_per_child": "isolated=True runs each attempt in a process of its own",
    "worker_log_format": "set up logging where the module of the worker is imported",
    "worker_task_log_format": "set up logging where the module of the worker is imported",
    "task_queues": "the queue of a task is its tag queue:NAME, which constraints can limit",
    "task_default_rate_limit": "a constraint",
    "task_annotations": "the options of each task",
    "result_expires": "the setting of the master for results",
}
# The upper-case names that Celery 3 used for supported settings.
_OLD: Final = {
    "always_eager": "task_always_eager",
    "eager_propagates_exceptions": "task_eager_propagates",
    "ignore_result": "task_ignore_result",
    "routes": "task_routes",
    "celerybeat_schedule": "beat_schedule",
    "celeryd_task_time_limit": "task_time_limit",
    "celeryd_task_soft_time_limit": "task_soft_time_limit",
}


class Conf(MutableMapping[str, Any]):
    """The settings of an application, by attribute and by key.

    These settings have an effect: `task_always_eager`, `task_eager_propagates`, `task_time_limit`,
    `task_soft_time_limit`, `task_ignore_result`, `task_default_priority`, `task_routes`, `beat_schedule`, `timezone`,
    `imports` and `include`. Settings about brokers and messages are ignored. A warning names all other settings, once.
    """

    def __init__(self) -> None:
        self._values: dict[str, Any]
        self._sources: list[Callable[[], Mapping[str, Any]]]
        self._told: set[str]
        self.__dict__.update(_values={}, _sources=[], _told=set())

    def add_source(self, read: Callable[[], Mapping[str, Any]]) -> None:
        """Read further settings later, when a setting is first needed: the settings of Django may not be complete
        yet."""
        self._sources.append(read)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Set several settings.

        * `args`: maps of settings.
        * `kwargs`: settings.
        """
        given: dict[str, Any] = {}
        for one in args:
            given.update(one)
        given.update(kwargs)
        self._take({_name_of(str(name)): value for name, value in given.items()})

    def time_zone(self) -> str:
        """Return the name of the time zone of schedules."""
        zone = self["timezone"]
        return "UTC" if zone is None else str(getattr(zone, "key", zone))

    def queue_of(self, task: str) -> str | None:
        """Return the queue to which `task_routes` sends a task, if it names one."""
        routes = self["task_routes"]
        for one in routes if isinstance(routes, list | tuple) else [routes]:
            if (route := _route_in(one, task)) is not None:
                queue = route.get("queue") if isinstance(route, Mapping) else route
                return None if queue is None else str(getattr(queue, "name", queue))
        return None

    def _take(self, given: Mapping[str, Any]) -> None:
        self._values.update(given)
        unused = sorted(
            name
            for name in given
            if name not in _DEFAULTS and name not in self._told and not _OF_BROKERS.fullmatch(name)
        )
        if unused:
            self._told.update(unused)
            told = ", ".join(f"{name} ({_INSTEAD[name]})" if name in _INSTEAD else name for name in unused)
            logger.warning("these settings of Celery change nothing here: %s; %s", told, GUIDE)

    def _read(self) -> dict[str, Any]:
        while self._sources:
            given = self._sources.pop(0)()
            # Settings that the application set directly take precedence over those of the configuration object.
            self._take({name: value for name, value in given.items() if name not in self._values})
        return self._values

    def __getitem__(self, name: str) -> Any:
        values, name = self._read(), _name_of(name)
        if name in values:
            return values[name]
        if name == "beat_schedule":  # store the map that is returned: applications add entries to it
            return values.setdefault(name, {})
        if name in _DEFAULTS:
            return _DEFAULTS[name]
        raise KeyError(name)

    def __setitem__(self, name: str, value: Any) -> None:
        self._take({_name_of(name): value})

    def __delitem__(self, name: str) -> None:
        del self._read()[_name_of(name)]

    def __iter__(self) -> Iterator[str]:
        return iter({**_DEFAULTS, **self._read()})

    def __len__(self) -> int:
        return len({**_DEFAULTS, **self._read()})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the setting {name} was not set; {GUIDE}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


def settings_of(source: Any, namespace: str | None) -> dict[str, Any]:
    """Return the settings of an object or a module, for `config_from_object`. A text names the object or module.

    * `namespace`: only names with this prefix are settings. The prefix is removed.
    """
    found = _imported(source) if isinstance(source, str) else source
    values = found if isinstance(found, Mapping) else {name: _value(found, name) for name in dir(found)}
    prefix = f"{namespace}_" if namespace else ""
    settings = {}
    for name, value in values.items():
        if not name.startswith("_") and name.upper().startswith(prefix.upper()) and not _is_code(value):
            settings[_name_of(name[len(prefix) :])] = value
    if not namespace:
        # A module contains other names, too. Read only the names of settings.
        settings = {
            name: value
            for name, value in settings.items()
            if name in _DEFAULTS or name in _INSTEAD or _OF_BROKERS.fullmatch(name)
        }
    return settings


def _imported(name: str) -> Any:
    module, _, attribute = name.partition(":")
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as exc:
        parent, _, last = module.rpartition(".")
        if attribute or not parent or exc.name != module:
            raise
        return getattr(importlib.import_module(parent), last)
    return getattr(found, attribute) if attribute else found


def _value(found: Any, name: str) -> Any:
    try:
        return getattr(found, name)
    except Exception:  # reading a property may raise anything, and it need not be one of Celery's settings
        return None


def _is_code(value: Any) -> bool:
    return isinstance(value, type(importlib) | type)


def _name_of(name: str) -> str:
    """Return the current name of a setting. Old names are upper-case, and most begin with CELERY_."""
    lower = name.lower()
    short = lower.removeprefix("celery_")
    return _OLD.get(lower) or _OLD.get(short) or short


def _route_in(routes: Any, task: str) -> Any:
    if routes is None:
        return None
    if callable(routes):
        return routes(task, (), {}, {})
    pairs = routes.items() if isinstance(routes, Mapping) else routes
    for pattern, route in pairs:
        if isinstance(pattern, re.Pattern):
            if pattern.match(task):
                return route
        elif fnmatch.fnmatchcase(task, pattern):
            return route
    return None
