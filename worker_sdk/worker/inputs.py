"""The predecessors of a job and their results, as its handler sees them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from worker_sdk.errors import InputMissing

if TYPE_CHECKING:
    from worker_sdk.protocol import JobInput
    from worker_sdk.pusher.results import JobResult
    from worker_sdk.sealing import Seal

ResultT = TypeVar("ResultT")
ResultT_co = TypeVar("ResultT_co", covariant=True)


class HasResult(Protocol[ResultT_co]):
    """The part of a task that decodes results."""

    def decode_result(self, value: Any) -> ResultT_co:
        """Decode a result. Raise ValueError if it does not fit the annotation."""
        ...


class Input:
    """A job for which this one waited.

    * `job_id`: ID of that job.
    * `state`: how that job ended, such as `succeeded` or `failed`. None: it was deleted.
    * `omitted`: None if the result is available. `not_kept`: the job left no result, or it was over before this job was
      enqueued and had no `keep_result`. `too_large`: the results of all inputs together exceed 1 MiB.

    For example:

        for one in ctx.inputs:
            print(one.job_id, one.state, one.result if one.is_success else one.outcome)
    """

    __slots__ = ("_result", "_seal", "job_id", "omitted", "state")

    def __init__(self, given: "JobInput", seal: "Seal | None" = None) -> None:
        self.job_id = given["job_id"]
        self.state = given["state"]
        self.omitted: str | None = given["omitted"]
        self._result = given["result"]
        self._seal = seal

    def __repr__(self) -> str:
        return f"<input {self.job_id}, {self.state or 'deleted'}>"

    @property
    def is_success(self) -> bool:
        """Return whether that job succeeded."""
        return self.state == "succeeded"

    @property
    def result(self) -> Any:
        """The handler's return value, without conversion. Raise InputMissing, which fails this job for good, if that
        job did not succeed or its result is not available."""
        if not self.is_success or self._result is None:
            raise InputMissing(self.job_id, self.state, self.omitted)
        result = self._result.get("result")
        return result if self._seal is None else self._seal.opened(result, "result", self.job_id)

    def result_of(self, task: HasResult[ResultT]) -> ResultT:
        """Return the result as the type that a task is annotated with. Raise InputMissing as `result` does, and also if
        the result does not fit.

        * `task`: the task of that job.

        For example:

            width = ctx.inputs[0].result_of(make_thumbnail)
        """
        try:
            return task.decode_result(self.result)
        except ValueError as exc:
            raise InputMissing(self.job_id, self.state, self.omitted, f"does not fit: {exc}") from None

    @property
    def outcome(self) -> "JobResult | None":
        """The outcome of the job, as `Pusher.result` returns it. For a failed job, it contains the reason and the
        error. None: the job left no result."""
        if self._result is None:
            return None
        from worker_sdk.pusher.results import JobResult

        fields = {name: self._result[name] for name in JobResult.__slots__ if name in self._result}
        if self._seal is not None:
            fields["result"] = self._seal.opened(fields.get("result"), "result", self.job_id)
            if "error" in fields:
                fields["error"], fields["message"] = self._seal.opened_failure(
                    fields["error"], fields.get("message") or "", self.job_id
                )
        return JobResult(**fields)


class Inputs(Sequence[Input]):
    """The jobs that a job waited for, in the order of its option `after`.

    For example:

        total = sum(ctx.inputs.results())
    """

    __slots__ = ("_all",)

    def __init__(self, given: "Iterable[JobInput]" = (), seal: "Seal | None" = None) -> None:
        self._all = tuple(Input(one, seal) for one in given)

    def __repr__(self) -> str:
        return f"<inputs {list(self._all)}>"

    @overload
    def __getitem__(self, index: int) -> Input: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Input]: ...
    def __getitem__(self, index: int | slice) -> Input | Sequence[Input]:
        return self._all[index]

    def __iter__(self) -> Iterator[Input]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def results(self) -> list[Any]:
        """Return the results of all jobs, in order. Raise InputMissing for the first job without a result.

        For example:

            total = sum(ctx.inputs.results())
        """
        return [one.result for one in self._all]

    def results_of(self, task: HasResult[ResultT]) -> list[ResultT]:
        """Return the results of all jobs, in order, as the type that a task is annotated with. Raise InputMissing as
        `Input.result_of` does.

        * `task`: the task of those jobs.

        For example:

            widths = ctx.inputs.results_of(make_thumbnail)
        """
        return [one.result_of(task) for one in self._all]
