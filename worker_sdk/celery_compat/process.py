"""The state of the process that Celery keeps, too: its tasks by name, and the application that was made last."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from worker_sdk.celery_compat.configuration import Conf
from worker_sdk.tasks.task import Task


class KnownTask(Protocol):
    """A task, as signatures, schedules and results use it."""

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
        """Return options of a call as those of a job."""
        ...

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Enqueue a call."""
        ...

    def apply(self, args: Any = None, kwargs: Any = None, throw: bool = False, **options: Any) -> Any:
        """Run a call here and now."""
        ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...


class Application(Protocol):
    """An application, as tasks and signatures use it."""

    conf: Conf

    def finalize(self) -> None:
        """Import the modules of tasks that were named."""
        ...


class CeleryProcess:
    """Holds what tasks and applications of this process know of one another.

    * `tasks`: the tasks by name.
    * `application`: the application that was made last.
    """

    def __init__(self) -> None:
        self.tasks: dict[str, KnownTask] = {}
        self.application: Application | None = None
        self._conf = Conf()

    @property
    def conf(self) -> Conf:
        """The settings that count for shared tasks: those of the application, or the defaults without one."""
        return self._conf if self.application is None else self.application.conf


PROCESS: Final = CeleryProcess()
