"""Flows: jobs that wait for one another, checked as a whole and enqueued in one call."""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, Union, overload

from worker_sdk.errors import InvalidFlow
from worker_sdk.pusher.after import After, AfterWhen, HasId, in_order, predecessors_of
from worker_sdk.pusher.jobs import JobMap, made_job
from worker_sdk.tasks.client import outbox_pushers, pushers_for
from worker_sdk.tasks.handle import AnyTask, JobHandle
from worker_sdk.tasks.task import TaskJob

if TYPE_CHECKING:
    from worker_sdk.pusher.by_process import LazyPushers, Pushers

ResultT = TypeVar("ResultT")
ResultT_co = TypeVar("ResultT_co", covariant=True)

# The masters' limits on the jobs of a flow, and on the predecessors of a job.
MAX_MEMBERS: Final = 10_000
MAX_PREDECESSORS: Final = 1_000
MAX_IN_FLOW: Final = 10_000
# Maximum number of jobs that an error names when jobs wait for each other in a cycle, which may be long.
_MAX_NAMED: Final = 10
# A job with one of these options cannot wait for other jobs.
_KEYED: Final = ("unique", "debounce")

Step = Union[Mapping[str, Any], "Flow[Any]"]
Predecessor = Union[str, Mapping[str, Any], HasId, "Flow[Any]"]
Predecessors = Predecessor | After | Iterable[Predecessor]


class Flow(Generic[ResultT_co]):
    """Jobs that wait for one another:

        flow = Flow()
        first = flow.add(make_thumbnail.to_job(1))
        others = [flow.add(make_thumbnail.to_job(number), after=first) for number in range(2, 5)]
        flow.add(add_up.to_job(), after=others)
        handles = flow.enqueue()

    A flow is checked before anything is sent, and enqueued in one call: a master accepts all of its jobs or none.
    `chain`, `group` and `chord` make flows, and a flow may be a member of another flow. A flow that ends with a group,
    or with several jobs, has no single last job.
    """

    # `Flow()` is a Flow[Any], because a type checker cannot know which job will be added last.
    def __init__(self: "Flow[Any]") -> None:
        # The keys of these maps are job IDs, in the order in which the jobs were added.
        self._members: dict[str, JobMap] = {}
        self._behind: dict[str, dict[str, None]] = {}
        self._when: dict[str, AfterWhen] = {}
        # The names, by ID, of predecessors that were given as jobs. Each of them must be a member of the flow.
        self._named: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<flow of {len(self)} jobs>"

    def __len__(self) -> int:
        return len(self._members)

    @overload
    def add(self, step: TaskJob[ResultT], after: Predecessors | None = None) -> TaskJob[ResultT]: ...
    @overload
    def add(self, step: "Flow[ResultT]", after: Predecessors | None = None) -> "Flow[ResultT]": ...
    @overload
    def add(self, step: Mapping[str, Any], after: Predecessors | None = None) -> dict[str, Any]: ...
    def add(self, step: Step, after: Predecessors | None = None) -> Any:
        """Add a job, or a copy of the jobs of another flow. Return it, for use as `after` and with the handles.

        * `step`: a job from `to_job` of a task or from `make_job`, a map of its fields, or a flow.
        * `after`: as for the method `after`. Default: the job waits for no job of this flow.

        Raise InvalidFlow for a job that was added before.

        For example:

            load = flow.add(make_thumbnail.to_job(42))
            flow.add(publish.to_job(7), after=load)
        """
        if isinstance(step, Flow):
            for job_id, job in step._members.items():
                self._add_member(job_id, job)
            for job_id, behind in step._behind.items():
                self._behind[job_id] = dict(behind)
            self._when.update(step._when)
            self._named.update(step._named)
        else:
            step = made_job(step)
            self._add_member(step["id"], step)
        if after is not None:
            self.after(step, after)
        return step

    def after(self, step: Step, jobs: Predecessors) -> None:
        """Let a job wait for further jobs.

        * `step`: the job. A flow means its first jobs, which wait for no other job of that flow.
        * `jobs`: a member, or several. A flow means its last jobs. IDs and handles name jobs that were enqueued before.
          With `After(jobs, when="finished")`, the job runs even if they did not succeed.

        Raise InvalidFlow if the job would wait for some jobs to succeed and for others to finish, and TypeError for a
        value that names no job. For example:

            first, second = flow.add(make_thumbnail.to_job(42)), flow.add(publish.to_job(7))
            flow.after(second, first)
        """
        when: AfterWhen = jobs.when if isinstance(jobs, After) else "succeeded"
        named: Any = jobs.jobs if isinstance(jobs, After) else jobs
        is_one = isinstance(named, (str, Mapping, Flow)) or not isinstance(named, Iterable)
        predecessors = [job_id for one in ([named] if is_one else named) for job_id in self._ids_of(one)]
        firsts = step._roots() if isinstance(step, Flow) else self._ids_of(step)
        for job_id in firsts:
            if predecessors and self._when.setdefault(job_id, when) != when:
                raise self._two_conditions(job_id)
            self._behind.setdefault(job_id, {}).update(dict.fromkeys(predecessors))

    def to_jobs(self) -> list[JobMap]:
        """Check the flow, and return its jobs as data. Each job comes after the jobs for which it waits. `Batch.add`
        and `Pusher.enqueue_many` accept them. Raise InvalidFlow if the flow cannot run.

        For example:

            flow = chain(make_thumbnail.to_job(42), publish.to_job(7))
            print([job["name"] for job in flow.to_jobs()])
        """
        if not self._members:
            raise InvalidFlow("a flow needs at least one job")
        if len(self) > MAX_MEMBERS:
            raise InvalidFlow(f"a flow has at most {MAX_MEMBERS:,} jobs, but this one has {len(self):,}")
        for job_id, name in self._named.items():
            if job_id not in self._members:
                raise InvalidFlow(f"{_of(name, job_id)} is a predecessor, but not in the flow: add it")
        jobs = [self._made(job_id, job) for job_id, job in self._members.items()]
        self._check_bounds(jobs)
        order, cyclic = in_order(jobs)
        if cyclic:
            raise InvalidFlow(f"these jobs wait for one another: {self._cycle_among(jobs, cyclic)}")
        return [jobs[n] for n in order]

    def enqueue(self) -> "FlowHandles[ResultT_co]":
        """Check the flow, enqueue all of its jobs in one call, and return their handles. Another call changes
        nothing.

        Raise InvalidFlow if the flow cannot run, RefusedError if the master refuses it, and UnavailableError if no
        master answers. For example:

            flow = chain(make_thumbnail.to_job(42), publish.to_job(7))
            handles = flow.enqueue()
        """
        jobs, pushers = self.to_jobs(), self._pushers()
        return self._handles(jobs, pushers.sync_pusher().enqueue_many(jobs, in_one_call=True), pushers)

    async def aenqueue(self) -> "FlowHandles[ResultT_co]":
        """Check the flow, enqueue all of its jobs in one call, and return their handles. Another call changes nothing.
        `aenqueue` does not block the event loop.

        Raise InvalidFlow if the flow cannot run, RefusedError if the master refuses it, and UnavailableError if no
        master answers. For example:

            flow = chain(make_thumbnail.to_job(42), publish.to_job(7))
            handles = await flow.aenqueue()
        """
        jobs, pushers = self.to_jobs(), self._pushers()
        return self._handles(jobs, await pushers.pusher().enqueue_many(jobs, in_one_call=True), pushers)

    # --- members

    def _add_member(self, job_id: str, job: JobMap) -> None:
        if job_id in self._members:
            raise InvalidFlow(f"{_of(job['name'], job_id)} is a member of the flow already")
        self._members[job_id] = job

    def _ids_of(self, given: Predecessor) -> list[str]:
        """Return the IDs of the jobs that `given` names. Record those that must be members."""
        if isinstance(given, Flow):
            ends = given._lasts()
            if not ends:
                raise InvalidFlow("a job cannot wait for an empty flow")
            self._named.update((one, given._members[one]["name"]) for one in ends)
            return ends
        found = given if isinstance(given, str) else _id_in(given)
        if not isinstance(found, str):
            raise TypeError(f"a flow takes jobs that have an ID, handles, IDs and flows, not {given!r}")
        if isinstance(given, Mapping):
            self._named[found] = str(given.get("name"))
        return [found]

    def _roots(self) -> list[str]:
        return [
            job_id
            for job_id in self._members
            if not any(one in self._members for one in self._before(job_id))
        ]

    def _lasts(self) -> list[str]:
        awaited = {one for job_id in self._members for one in self._before(job_id)}
        return [job_id for job_id in self._members if job_id not in awaited]

    def _before(self, job_id: str) -> list[str]:
        """Return the jobs that a member waits for: the jobs in its option `after`, and the jobs that the flow adds."""
        return list(dict.fromkeys([*predecessors_of(self._members[job_id]), *self._behind.get(job_id, ())]))

    def _made(self, job_id: str, job: JobMap) -> JobMap:
        """Return the job in wire form, with all its predecessors."""
        own, behind = job.get("after"), self._behind.get(job_id)
        if not behind:
            return job
        when = self._when[job_id]
        if own is not None and own["when"] != when:
            raise self._two_conditions(job_id)
        made = copy.copy(job)
        made["after"] = {"jobs": self._before(job_id), "when": when}
        return made

    def _two_conditions(self, job_id: str) -> InvalidFlow:
        return InvalidFlow(
            f"{self._label_of(job_id)} waits for some jobs to succeed and for others to finish: use one condition"
        )

    # --- checks

    def _check_bounds(self, jobs: Sequence[JobMap]) -> None:
        total = 0
        for job in jobs:
            before = predecessors_of(job)
            total += len(before)
            if len(before) > MAX_PREDECESSORS:
                raise InvalidFlow(
                    f"{self._label_of(job['id'])} waits for {len(before):,} jobs; "
                    f"at most {MAX_PREDECESSORS:,} are allowed"
                )
            if before and any(option in job for option in _KEYED):
                raise InvalidFlow(
                    f"{self._label_of(job['id'])} waits for other jobs, so it cannot have unique or debounce"
                )
        if total > MAX_IN_FLOW:
            raise InvalidFlow(
                f"the jobs of a flow may have {MAX_IN_FLOW:,} predecessors in total, but these have {total:,}: "
                "put a job between two large groups"
            )

    def _cycle_among(self, jobs: Sequence[JobMap], cyclic: Sequence[int]) -> str:
        """Return a text for people that names the jobs of one cycle, in the order in which they would run."""
        inside = {jobs[n]["id"] for n in cyclic}
        # Start at any of these jobs and follow predecessors: each of these jobs waits for another of them, so some job
        # comes twice.
        path: list[str] = []
        job_id = next(iter(inside))
        while job_id not in path:
            path.append(job_id)
            job_id = next(one for one in self._before(job_id) if one in inside)
        cycle = [job_id, *reversed(path[path.index(job_id) :])]
        if len(cycle) > _MAX_NAMED:
            return " → ".join([*map(self._label_of, cycle[:_MAX_NAMED]), f"{len(cycle) - _MAX_NAMED} more"])
        return " → ".join(map(self._label_of, cycle))

    def _label_of(self, job_id: str) -> str:
        return _of(self._members[job_id]["name"], job_id) if job_id in self._members else f"job {job_id}"

    # --- enqueueing

    def _pushers(self) -> "Pushers":
        if outbox_pushers.get() is not None:
            # An outbox may send its rows in several calls, but a flow must be enqueued in one.
            raise TypeError("a flow cannot be enqueued in the transaction of an outbox")
        own: dict[int, LazyPushers | None] = {}
        for job in self._members.values():
            if isinstance(job, TaskJob) and job.task is not None:
                pushers = job.task.tasks.own_pushers()
                own[id(pushers)] = pushers
        if len(own) > 1:
            raise InvalidFlow("the tasks of a flow must all have the same master")
        return pushers_for(next(iter(own.values()), None))

    def _handles(
        self, jobs: Sequence[JobMap], ids: Sequence[str], pushers: "Pushers"
    ) -> "FlowHandles[ResultT_co]":
        known = {job["id"]: _handle_of(job, job_id, pushers) for job, job_id in zip(jobs, ids, strict=True)}
        return FlowHandles({job_id: known[job_id] for job_id in self._members}, self._lasts())


class FlowHandles(Generic[ResultT_co]):
    """The handles of the jobs of a flow. `Flow.enqueue` returns this object. Iterating yields the handles in the order
    in which the jobs were added.

    For example:

        handles = chain(make_thumbnail.to_job(42), publish.to_job(7)).enqueue()
        print(handles.last.status, len(handles))
    """

    def __init__(self, handles: Mapping[str, JobHandle[Any]], lasts: Sequence[str]) -> None:
        self._handles = handles
        self._lasts = lasts

    def __repr__(self) -> str:
        return f"<handles of {len(self)} jobs>"

    @overload
    def __getitem__(self, job: TaskJob[ResultT]) -> JobHandle[ResultT]: ...
    @overload
    def __getitem__(self, job: Mapping[str, Any] | str) -> JobHandle[Any]: ...
    def __getitem__(self, job: Mapping[str, Any] | str) -> JobHandle[Any]:
        return self._handles[job if isinstance(job, str) else job["id"]]

    def __iter__(self) -> Iterator[JobHandle[Any]]:
        return iter(self._handles.values())

    def __len__(self) -> int:
        return len(self._handles)

    @property
    def last(self) -> JobHandle[ResultT_co]:
        """The handle of the job that ends the flow. Raise LookupError if the flow ends with several jobs."""
        if len(self._lasts) != 1:
            raise LookupError(f"the flow ends with {len(self._lasts)} jobs: choose one with handles[job]")
        return self._handles[self._lasts[0]]


@overload
def chain(*steps: *tuple[*tuple[Step, ...], TaskJob[ResultT]]) -> Flow[ResultT]: ...
@overload
def chain(*steps: *tuple[*tuple[Step, ...], Flow[ResultT]]) -> Flow[ResultT]: ...
@overload
def chain(*steps: Step) -> Flow[Any]: ...
def chain(*steps: Any) -> Flow[Any]:  # type: ignore[misc]  # mypy cannot compare steps behind an unpacked tuple
    """Return a flow of steps that run one after another. Each step waits until the previous one has succeeded.

    * `steps`: jobs, as for `Flow.add`, and flows. A step after a group waits for all jobs of the group.

    A task receives the result of the previous step in a parameter with the default `INPUT`, or `INPUTS` after a group.
    Raise InvalidFlow for a group without jobs that is not the first step.

    For example:

        flow = chain(make_thumbnail.to_job(42), publish.to_job(7))
        handles = flow.enqueue()
    """
    flow: Flow[Any] = Flow()
    before: list[str] = []
    for number, step in enumerate(steps):
        if isinstance(step, Flow) and not len(step):
            if number > 0:
                raise InvalidFlow(f"step {number + 1} of the chain has no jobs")
            continue
        added = flow.add(step, after=before or None)
        before = added._lasts() if isinstance(added, Flow) else [added["id"]]
    return flow


def group(*jobs: Step | Iterable[Step]) -> Flow[object]:
    """Return a flow of jobs that do not wait for one another.

    * `jobs`: jobs, as for `Flow.add`, and flows; or iterables of them.

    For example:

        flow = group(make_thumbnail.to_job(number) for number in range(3))
        handles = flow.enqueue()
    """
    flow: Flow[object] = Flow()
    for given in jobs:
        for step in (given,) if isinstance(given, (Mapping, Flow)) else given:
            flow.add(step)
    return flow


def chord(
    header: Flow[Any] | Iterable[Step], callback: TaskJob[ResultT], *, when: AfterWhen = "succeeded"
) -> Flow[ResultT]:
    """Return a flow of jobs and one final job, the callback. The callback runs when all other jobs have succeeded.

    * `header`: a group, or an iterable of jobs. If it is empty, the callback waits for nothing.
    * `callback`: the job that runs last. Its task receives the results of the other jobs in a parameter with the
      default `INPUTS`.
    * `when`: with `finished`, the callback runs even if some jobs did not succeed.

    For example:

        flow = chord([make_thumbnail.to_job(number) for number in range(3)], add_up.to_job())
        handles = flow.enqueue()
    """
    flow: Flow[ResultT] = Flow()
    added = flow.add(header if isinstance(header, Flow) else group(header))
    flow.add(callback)
    flow.after(callback, After(added._lasts(), when))
    return flow


def _handle_of(job: JobMap, job_id: str, pushers: "Pushers") -> JobHandle[Any]:
    if isinstance(job, TaskJob) and job.task is not None:
        return job.task.handle_of(job, job_id, pushers)
    return JobHandle(AnyTask(job["name"]), job_id, pushers)


def _id_in(given: Any) -> Any:
    return given.get("id") if isinstance(given, Mapping) else getattr(given, "id", None)


def _of(name: Any, job_id: str) -> str:
    return f"{name} ({job_id})"
