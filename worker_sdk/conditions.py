"""Ready-made conditions for `prepare`. An unmet condition states the reason and how long to wait."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote, urlencode

from worker_sdk.errors import Defer, RefusedError
from worker_sdk.outside import Ready
from worker_sdk.worker.context import pushers_of
from worker_sdk.worker.enqueue_calls import is_in_loop
from worker_sdk.worker.lease import now_s

if TYPE_CHECKING:
    from worker_sdk.worker.context import Context

    class Answered(Ready, Defer):
        """The result of `ready_when`: a `Ready` or `Defer`. An async handler awaits it."""

        def __await__(self) -> Generator[Any, None, "Ready | Defer"]: ...


# A generator that yields the reads and probes to make, and receives their answers.
Steps = Generator["MasterRead | Probe", Mapping[str, Any], Defer | None]

_ENDED: Final = ("succeeded", "discarded", "failed")


@dataclass(frozen=True, slots=True)
class MasterRead:
    """A request that reads from the master's API. `of`: the job to read."""

    path: str
    of: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """A call of an outside system."""

    url: str
    timeout_s: float


class Condition(ABC):
    """Something that must be true before work can begin."""

    @abstractmethod
    def _steps(self) -> Steps:
        """Yield reads and probes, and receive their answers. Return None if the condition is met, or else a Defer."""


@dataclass(frozen=True)
class SinceLastRun(Condition):
    """No job with this name (and tag) has ended within the last `at_least_s` seconds. Canceled and skipped jobs do not
    count.

    The condition sees only jobs that are still stored. Succeeded jobs are stored for `retention_succeeded_s` (1 h by
    default), and at most `retention_succeeded_max` of them. For longer times, or an exact limit, use a constraint with
    a rate.

    * `name`: name of the jobs.
    * `at_least_s`: minimum seconds since the last job ended.
    * `tag`: count only jobs with this tag, for example if one name serves several customers.

    For example:

        condition = SinceLastRun("report.send", at_least_s=600)
    """

    name: str
    at_least_s: float
    tag: str | None = None

    def _steps(self) -> Steps:
        now = datetime.now(UTC)
        after = (now - timedelta(seconds=self.at_least_s)).isoformat()
        last: datetime | None = None
        for state in _ENDED:
            query = {
                "name": self.name,
                "state": state,
                "finished_after": after,
                "order": "newest",
                "limit": "1",
            }
            if self.tag is not None:
                query["tag"] = self.tag
            page = yield MasterRead(f"/api/jobs?{urlencode(query)}")
            for job in page["jobs"]:
                ended = _instant(job["finished_at"])
                last = ended if last is None else max(last, ended)
        if last is None:
            return None
        left_s = self.at_least_s - (now - last).total_seconds()
        what = self.name if self.tag is None else f"{self.name} with the tag {self.tag}"
        return Defer(left_s, f"{what} ran less than {self.at_least_s:g} s ago") if left_s > 0 else None


@dataclass(frozen=True)
class OutstandingBelow(Condition):
    """Fewer jobs with this name than `limit` await callbacks. Several jobs may see the same number at once. For an
    exact limit, use a constraint with a concurrency: it also counts jobs that await callbacks.

    * `name`: name of the jobs.
    * `limit`: 1 to 100. The condition is unmet if this many jobs or more await callbacks.
    * `after_s`: seconds until it is checked again.

    For example:

        condition = OutstandingBelow("film.render", 3)
    """

    name: str
    limit: int
    after_s: float = 5.0

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= 100:
            raise ValueError("limit must be 1 to 100")

    def _steps(self) -> Steps:
        query = {"name": self.name, "state": "awaiting_callback", "limit": str(self.limit)}
        page = yield MasterRead(f"/api/jobs?{urlencode(query)}")
        if len(page["jobs"]) < self.limit:
            return None
        return Defer(self.after_s, f"{self.limit} jobs {self.name} already await callbacks")


@dataclass(frozen=True)
class JobIs(Condition):
    """Another job is in one of these states. A job that does not exist, or was removed, is in no state.

    * `job_id`: the other job.
    * `states`: the states, such as `{"succeeded"}`.
    * `after_s`: seconds until it is checked again.

    For example:

        condition = JobIs("0190f5c2-7b1e-7c3a-8000-000000000000", states=("succeeded", "discarded"))
    """

    job_id: str
    states: Collection[str] = ("succeeded",)
    after_s: float = 5.0

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "states", (self.states,) if isinstance(self.states, str) else tuple(self.states)
        )

    def _steps(self) -> Steps:
        try:
            state = (yield MasterRead(f"/api/jobs/{quote(self.job_id, safe='')}", self.job_id))["state"]
        except RefusedError as error:
            if error.status != 404:
                raise
            state = "unknown"
        if state in self.states:
            return None
        return Defer(self.after_s, f"job {self.job_id} is {state}, and not {' or '.join(self.states)}")


@dataclass(frozen=True)
class DefinitionRan(Condition):
    """The last job that a definition started has succeeded, or no longer exists. A failed job is removed after
    `retention_failed_s` (30 days by default). It is removed earlier if an operator deletes it, or if there are more
    than `retention_failed_max` failed jobs.

    * `name`: name of the definition.
    * `within_s`: the last job must have been due within this number of seconds. Default: at any time.
    * `after_s`: seconds until it is checked again.

    For example:

        condition = DefinitionRan("import.nightly", within_s=86_400)
    """

    name: str
    within_s: float | None = None
    after_s: float = 30.0

    def _steps(self) -> Steps:
        page = yield MasterRead(f"/api/definitions/{quote(self.name, safe='')}/runs?outcome=fired&limit=1")
        if not page["runs"]:
            return Defer(self.after_s, f"definition {self.name} has started no job yet")
        run = page["runs"][0]
        if self.within_s is not None:
            age_s = (datetime.now(UTC) - _instant(run["due_at"])).total_seconds()
            if age_s > self.within_s:
                return Defer(
                    self.after_s, f"definition {self.name} has started no job within {self.within_s:g} s"
                )
        if run["job_state"] in ("succeeded", "discarded", None):
            return None
        return Defer(self.after_s, f"the last job of definition {self.name} is {run['job_state']}")


@dataclass(frozen=True)
class HttpOk(Condition):
    """An outside system answers a GET with a 2xx.

    * `url`: address of the probe, with http or https.
    * `timeout_s`: timeout of the call in seconds.
    * `after_s`: seconds until it is checked again. A `Retry-After` in the answer may lengthen this time.

    For example:

        condition = HttpOk("http://render.example/health")
    """

    url: str
    timeout_s: float = 2.0
    after_s: float = 5.0

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ValueError("url must begin with http:// or https://")

    def _steps(self) -> Steps:
        answer = yield Probe(self.url, self.timeout_s)
        fault = answer["fault"]
        if not fault:
            return None
        return Defer(max(self.after_s, answer["retry_after_s"]), f"{self.url}: {fault}")


def ready_when(ctx: "Context", *conditions: Condition) -> "Answered":
    """Return `Ready()` if all conditions are met. Otherwise return the `Defer` of the first unmet condition. Return
    this value from `prepare`.

    * `ctx`: the context that `prepare` got.
    * `conditions`: the conditions. They are checked in this order, up to the first unmet condition.

    Await the call in an `async def`; in a `def` it blocks. Conditions that read from a master need the scope `read` in
    addition to `work`. Raise RefusedError if the master refuses, and UnavailableError if no master answers. Both errors
    fail the attempt.

    For example:

        def prepare(self, argument: str, ctx: Context) -> Ready | Defer:
            return ready_when(ctx, OutstandingBelow("film.render", 3))
    """
    # In the test kit, the test says which conditions are unmet, and no system is called.
    unmet: Collection[Condition] | None = getattr(pushers_of(ctx), "unmet", None)
    if unmet is not None:
        return cast("Answered", _in_test(conditions, unmet))
    if is_in_loop():
        return cast("Answered", _ready_when(ctx, conditions))
    for condition in conditions:
        if (defer := _ask(ctx, condition)) is not None:
            return cast("Answered", defer)
    return cast("Answered", Ready())


def _in_test(conditions: tuple[Condition, ...], unmet: Collection[Condition]) -> Any:
    answer: Ready | Defer = Ready()
    for condition in conditions:
        if condition in unmet:
            answer = Defer(1.0, f"not met in this test: {condition}")
            break
    if not is_in_loop():
        return answer

    async def wait() -> Ready | Defer:
        return answer

    return wait()


async def _ready_when(ctx: "Context", conditions: tuple[Condition, ...]) -> Ready | Defer:
    for condition in conditions:
        if (defer := await _ask_async(ctx, condition)) is not None:
            return defer
    return Ready()


def _ask(ctx: "Context", condition: Condition) -> Defer | None:
    steps = condition._steps()
    try:
        question = next(steps)
        while True:
            try:
                if isinstance(question, Probe):
                    answer = _probed(question, ctx.deadline_s - now_s())
                else:
                    answer = ctx.sync_pusher._call("GET", question.path, of=question.of).body
            except RefusedError as error:
                question = steps.throw(error)
            else:
                question = steps.send(answer)
    except StopIteration as end:
        return cast("Defer | None", end.value)


async def _ask_async(ctx: "Context", condition: Condition) -> Defer | None:
    import asyncio

    steps = condition._steps()
    try:
        question = next(steps)
        while True:
            try:
                if isinstance(question, Probe):
                    answer = await asyncio.to_thread(_probed, question, ctx.deadline_s - now_s())
                else:
                    answer = (await ctx.pusher._call("GET", question.path, of=question.of)).body
            except RefusedError as error:
                question = steps.throw(error)
            else:
                question = steps.send(answer)
    except StopIteration as end:
        return cast("Defer | None", end.value)


def _probed(probe: Probe, left_s: float) -> Mapping[str, Any]:
    """Call an outside system. `fault` is empty if the system answers with a 2xx."""
    import http.client
    import urllib.error
    import urllib.request

    try:
        # The URL is safe to open: `HttpOk` accepts http and https only.
        with urllib.request.urlopen(probe.url, timeout=max(0.001, min(probe.timeout_s, left_s))):  # noqa: S310
            return {"fault": "", "retry_after_s": 0.0}
    except urllib.error.HTTPError as error:
        with error:
            wait = error.headers.get("Retry-After") or ""
            return {
                "fault": f"answers {error.code}",
                "retry_after_s": float(wait) if wait.isdecimal() else 0.0,
            }
    except (OSError, ValueError, http.client.HTTPException) as error:
        return {"fault": str(getattr(error, "reason", error)) or type(error).__name__, "retry_after_s": 0.0}


def _instant(text: Any) -> datetime:
    return text if isinstance(text, datetime) else datetime.fromisoformat(str(text))
