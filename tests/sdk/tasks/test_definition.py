"""Functions that can be tasks, and those that are refused on module import."""

import pickle
import re
import subprocess
import sys
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal, TypedDict
from uuid import UUID

import pytest

from tests.support.each import for_each
from worker_sdk import INJECTED, Context, InvalidArgument, Task, Tasks, Worker, retry_on

tasks = Tasks()


@tasks.task("thumbnail.make", timeout=600, max_retry=8, tags=["photos"], retry_on=retry_on(OSError, wait=60))
async def make_thumbnail(photo_id: int, size: int = 320, *, ctx: Context = INJECTED) -> str:
    """Make a thumbnail."""
    return f"{photo_id} at {size}, attempt {ctx.attempt if ctx else 0}"


@tasks.task("thumbnail.drop")
def drop_thumbnail(ctx: Context, photo_id: int) -> int:
    return photo_id


@pytest.mark.req("S8")
async def test_a_task_is_called_like_its_function() -> None:
    assert await make_thumbnail(42, size=1) == "42 at 1, attempt 1"
    assert make_thumbnail.__name__ == "make_thumbnail"
    assert make_thumbnail.__doc__ == "Make a thumbnail."


def test_a_collection_lists_its_tasks() -> None:
    assert tasks.names == ["thumbnail.drop", "thumbnail.make"]
    assert list(tasks) == [make_thumbnail, drop_thumbnail]
    assert len(tasks) == 2
    assert "thumbnail.make" in tasks
    assert tasks["thumbnail.make"] is make_thumbnail


def test_a_task_is_pickled_by_reference() -> None:
    assert pickle.loads(pickle.dumps(make_thumbnail)) is make_thumbnail


@pytest.mark.req("S8")
def test_a_job_has_the_arguments_by_name_and_the_options_of_the_task() -> None:
    job = make_thumbnail.using(priority=-5, timeout=30, delay=60).to_job(42, size=100)
    assert job.pop("id")
    assert job == {
        "name": "thumbnail.make", "argument": {"photo_id": 42, "size": 100},
        "priority": -5, "timeout": 30, "delay": 60, "max_retry": 8, "tags": ["photos"],
    }  # fmt: skip
    assert (job.task, job.arguments) == (make_thumbnail, {"photo_id": 42, "size": 100})


def test_a_default_does_not_travel() -> None:
    assert make_thumbnail.to_job(42)["argument"] == {"photo_id": 42}


def test_using_again_adds_options() -> None:
    job = make_thumbnail.using(priority=1, timeout=5).using(priority=2).to_job(1)
    assert (job["priority"], job["timeout"]) == (2, 5)


def test_expires_is_counted_from_the_enqueue() -> None:
    # The clock of the master counts: no instant of this machine is sent.
    calls = make_thumbnail.using(expires=60)
    assert [calls.to_job(n)["expires_s"] for n in range(2)] == [60, 60]
    assert make_thumbnail.using(expires=timedelta(minutes=2)).to_job(1)["expires_s"] == 120
    assert not [field for field in calls.to_job(1) if field.endswith("_at")]
    with pytest.raises(TypeError, match="expires or expires_at, not both"):
        make_thumbnail.using(expires=60, expires_at="2030-01-01T00:00:00Z").to_job(1)


def test_an_unknown_option_is_refused_where_it_is_given() -> None:
    with pytest.raises(TypeError, match="not an option of a job: prioritee"):
        make_thumbnail.using(prioritee=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("args", "kwargs", "problem"),
    [
        ((), {}, "photo_id: is missing"),
        ((1, 2, 3), {}, "arguments: 3 were given by position, but at most 2 are accepted"),
        ((1,), {"photo_id": 2}, "photo_id: is given twice"),
        ((1,), {"siz": 2}, "siz: is not a parameter"),
        ((1,), {"ctx": None}, "ctx: is the context, which the worker fills"),
        (("1",), {}, "photo_id: Expected `int`, got `str`"),
        ((1,), {"size": None}, "size: Expected `int`, got `None`"),
        ((object(),), {}, "photo_id: is an object, which has no MessagePack form: give it as None"),
    ],
)
@pytest.mark.req("S8")
def test_a_call_that_does_not_fit_is_refused_before_anything_is_sent(
    args: tuple[Any, ...], kwargs: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidArgument, match=problem) as raised:
        make_thumbnail.to_job(*args, **kwargs)
    assert isinstance(raised.value, TypeError)
    assert raised.value.task == "thumbnail.make"


FORMS: list[tuple[Any, Any, str]] = [
    (datetime, "soon", "Expected a date and time such as `2026-05-01T12:00:00Z`, got `str` of another form"),
    (date, "soon", "Expected a date such as `2026-05-01`, got `str` of another form"),
    (time, "soon", "Expected a time such as `12:00:00`, got `str` of another form"),
    (timedelta, "long", "Expected a duration such as `PT90S`, got `str` of another form"),
    (UUID, "42", "Expected a UUID, got `str` of another form"),
    (UUID, b"42", "Expected a UUID, got `bytes` of another length"),
    (Decimal, "much", "Expected a decimal number such as `12.50`, got `str` of another form"),
    (bytes, "$", "Expected base64, got `str` of another form"),
    (Literal["red", "green"], "blue", "Expected one of the allowed values, got `str`"),
    (tuple[int, int], [1], "Expected `list` of length 2, got 1"),
]


@pytest.mark.req("S8")
@for_each(("annotation", "value", "problem"), FORMS)
def test_an_error_says_which_argument_has_which_wrong_form_and_not_its_value(
    annotation: Any, value: Any, problem: str
) -> None:
    def keep(at: Any) -> None: ...

    def keep_all(at: Any) -> None: ...

    keep.__annotations__, keep_all.__annotations__ = {"at": annotation}, {"at": list[annotation]}
    tasks = Tasks()
    with pytest.raises(InvalidArgument) as raised:
        tasks.task("keep")(keep).to_job(value)
    assert raised.value.problems == [("at", problem)]
    with pytest.raises(InvalidArgument) as raised:
        tasks.task("keep_all")(keep_all).to_job([value])
    # The type of a part is only told where the expected form implies it.
    assert raised.value.problems == [("at[0]", problem.removesuffix(", got `str`"))]


def test_an_error_quotes_the_name_of_a_field_as_it_is() -> None:
    class Box(TypedDict):
        object: int

    @Tasks().task("keep")
    def keep(at: Box) -> None: ...

    with pytest.raises(InvalidArgument, match="at: Object missing required field `object`"):
        keep.to_job({})  # type: ignore[typeddict-item]


def test_the_examples_in_these_errors_are_accepted() -> None:
    for annotation, _, problem in FORMS:
        example = re.search("such as `(.*?)`", problem)
        if example:

            def keep(at: Any) -> None: ...

            keep.__annotations__ = {"at": annotation}
            assert Tasks().task("keep")(keep).to_job(example[1])


def test_an_argument_that_holds_itself_is_refused() -> None:
    @Tasks().task("x")
    def keep(values: list[Any]) -> None: ...

    values: list[Any] = []
    values.append(values)
    with pytest.raises(InvalidArgument, match="values: is nested too deep, or contains itself"):
        keep.to_job(values)


class Photo:
    def make(self) -> None: ...

    @staticmethod
    def drop() -> None: ...


def numbers() -> Any:
    yield 1


def many(*photo_ids: int) -> None: ...


def bare_context(ctx) -> None:  # type: ignore[no-untyped-def]
    ...


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (Photo.make, "Photo.make is a method, and a job has no object to call it on"),
        (Photo.drop, "Photo.drop is a method"),
        (staticmethod(many), "a method cannot be a task"),
        (Photo, "a type cannot be a task"),
        (numbers, "a generator cannot be a task"),
        (many, r"name each parameter instead of \*photo_ids"),
        (
            bare_context,
            "annotate the parameter that takes the context: write ctx: Context as the first parameter",
        ),
    ],
)
def test_the_error_says_why_a_function_cannot_be_a_task(function: Any, why: str) -> None:
    with pytest.raises(TypeError, match=f"^task photo.make: .*{why}"):
        Tasks().task("photo.make")(function)


def test_a_decorator_without_a_name_says_what_to_write() -> None:
    with pytest.raises(TypeError, match=r'write @tasks.task\("…"\)'):
        Tasks().task(many)  # type: ignore[arg-type]


def test_a_bad_name_is_refused() -> None:
    with pytest.raises(ValueError, match="not a name for jobs: 'a b'"):
        Tasks().task("a b")


def test_two_tasks_of_one_name_are_refused() -> None:
    twice = Tasks()
    twice.task("same")(many_none)
    with pytest.raises(
        ValueError, match=r"there is a task same already: tests\.sdk\.tasks\.test_definition\.many_none"
    ):
        twice.task("same")(many_none)


def many_none() -> None: ...


def test_two_collections_with_one_name_are_refused_by_their_worker() -> None:
    one, other = Tasks(), Tasks()
    one.task("same")(many_none)
    other.task("same")(many_none)
    with pytest.raises(ValueError, match="two tasks are named same"):
        Worker("http://127.0.0.1:1", tasks=[one, other]).names  # noqa: B018


def test_a_task_and_a_handler_of_one_name_are_refused() -> None:
    one = Tasks()
    one.task("same")(many_none)
    worker = Worker("http://127.0.0.1:1", tasks=one)
    worker.handler("same")(lambda argument: argument)
    with pytest.raises(ValueError, match="same has a handler already"):
        worker.names  # noqa: B018


def test_a_worker_takes_tasks_only() -> None:
    with pytest.raises(TypeError, match="a Tasks object is needed here, not a str"):
        Worker("http://127.0.0.1:1", tasks=["app.tasks"])  # type: ignore[list-item]


def test_an_annotation_that_is_imported_for_checkers_alone_is_explained() -> None:
    def load(photo: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    task: Task[..., None] = Tasks().task("photo.load")(load)
    with pytest.raises(TypeError, match=r"task photo.load: an annotation cannot be resolved.*TYPE_CHECKING"):
        task.to_job(1)


def test_a_type_that_cannot_travel_is_refused_when_the_worker_is_made() -> None:
    one = Tasks()

    @one.task("photo.load")
    def load(photo: Photo) -> None: ...

    with pytest.raises(
        TypeError,
        match=r"task photo.load: parameter photo has the type .*Photo.* not a type that can be encoded",
    ):
        Worker("http://127.0.0.1:1", tasks=one).names  # noqa: B018


MODULE = """
import sys
from worker_sdk import INJECTED, Context, Tasks, retry_on
tasks = Tasks()

@tasks.task("thumbnail.make", timeout=600, retry_on=retry_on(OSError, wait=60))
async def make(photo_id: int, size: int = 320, *, ctx: Context = INJECTED) -> str:
    return ""

print(*sys.modules)
"""


@pytest.mark.req("S10")
def test_a_module_of_tasks_brings_no_client_no_worker_and_no_checker() -> None:
    done = subprocess.run([sys.executable, "-c", MODULE], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    heavy = {"ast", "asyncio", "concurrent", "dataclasses", "datetime", "email", "http", "importlib.metadata",
             "inspect", "logging", "msgpack", "msgspec", "pydantic", "random", "signal", "socket", "ssl", "subprocess",
             "threading", "traceback", "urllib", "uuid", "uvicorn"}  # fmt: skip
    assert {name for name in loaded if name in heavy or name.partition(".")[0] in heavy} == set()
    # Every module added here costs all enqueuing web applications.
    assert {name for name in loaded if name.startswith("worker_sdk.")} == {
        "worker_sdk.dependencies", "worker_sdk.dependencies.depends", "worker_sdk.errors",
        "worker_sdk.job", "worker_sdk.loading", "worker_sdk.option_types", "worker_sdk.parameters", "worker_sdk.shown",
        "worker_sdk.suggesting", "worker_sdk.tasks", "worker_sdk.tasks.collection",
        "worker_sdk.tasks.shown_signature", "worker_sdk.tasks.signature", "worker_sdk.tasks.task", "worker_sdk.worker",
        "worker_sdk.worker.cancel_signal", "worker_sdk.worker.checkpoint_calls", "worker_sdk.worker.context",
        "worker_sdk.worker.enqueue_calls", "worker_sdk.worker.lease", "worker_sdk.worker.names",
        "worker_sdk.worker.no_value", "worker_sdk.worker.policies",
    }  # fmt: skip
