"""State of the process, as in Celery: the tasks by name, and the newest application."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from worker_sdk.celery_compat.configuration import Conf
from worker_sdk.tasks.task import Task


class KnownTask(Protocol):
    """The part of a task that signatures, schedules and results use."""

    name: str
    task: Task[..., Any]

    def to_job(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: Mapping[str, Any],
        takes: str | None = None,
    ) -> Any:
        """Return the job of a call."""
        ...

    def arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by name."""
        ...

    def job_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Convert options of a call to options of a job."""
        ...

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Enqueue a call."""
        ...

    def apply(self, args: Any = None, kwargs: Any = None, throw: bool = False, **options: Any) -> Any:
        """Run a call here and now."""
        ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...


class Application(Protocol):
    """The part of an application that tasks and signatures use."""

    conf: Conf

    def finalize(self) -> None:
        """Import the named modules of tasks."""
        ...


class CeleryProcess:
    """Registry of the tasks and the application of this process.

    * `tasks`: the tasks by name.
    * `application`: the newest application.
    """

    def __init__(self) -> None:
        self.tasks: dict[str, KnownTask] = {}
        self.application: Application | None = None
        self._conf = Conf()

    @property
    def conf(self) -> Conf:
        """The settings for shared tasks: the settings of the application, or the defaults if there is no
        application."""
        return self._conf if self.application is None else self.application.conf


PROCESS: Final = CeleryProcess()
