"""Write docs/sdk.md and the pages in docs/sdk/: `python -m tools.sdk_reference --write`. They are made from the
signatures and docstrings of worker_sdk, and from the examples in docs/sdk/examples.

The program reads the source instead of importing it. So annotations appear in the page as they are written.
"""

import ast
import functools
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
INDEX = Path("docs/sdk.md")
FOLDER = Path("docs/sdk")
EXAMPLES = FOLDER / "examples"
WIDTH = 100

_WRITTEN = "Written by `make docs` from the code of `worker_sdk`; do not edit."
_HEAD = f"""\
# SDK reference

{_WRITTEN}

Every class and function of the SDK, by what you want to do. [tutorial.md](tutorial.md) introduces them by example. Import names
without a module from `worker_sdk`. All times are in seconds. Each example is a file that runs as it is; a test does the same.
"""
_TAIL = """\
[config.md](config.md#variables-of-the-client-commands-workers-and-pushers) lists the variables that workers and pushers read,
[errors.md](errors.md) the codes of refusals, and [web_servers.md](web_servers.md) covers forks, threads and event loops.
"""


# Maps the decorators in `worker_sdk.blocks` to the keywords that stand before a call of the decorated function.
BLOCKS = {"either_with": "with ", "with_only": "with ", "async_with_only": "async with "}


@dataclass(frozen=True)
class Entry:
    """A public name. `path`: a module of worker_sdk, and the name. `is_exported`: whether worker_sdk itself exports the
    name."""

    path: str
    is_exported: bool = True
    is_constructed: bool = True  # whether users construct it

    @property
    def module(self) -> str:
        return self.path.rpartition(".")[0]

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def package(self) -> str:
        """Return the package from which users import the name."""
        if self.is_exported:
            return "worker_sdk"
        # For names of these modules, return the package that exports them.
        module = re.sub(r"^(pusher|testing)\.(jobs|harness|kit|records)$", r"\1", self.module)
        module = re.sub(r"^middleware\..*", "middleware", module)
        module = re.sub(r"^django\.(backend|options|outbox)$", "django", module)
        module = re.sub(r"^outbox\.(?!sqlalchemy|steps).*", "outbox", module)
        return f"worker_sdk.{module}"


@dataclass(frozen=True)
class Page:
    """A page of the reference. `wish`: completes the sentence "I want to …". `intro`: leads to the guides."""

    slug: str
    title: str
    wish: str
    intro: str
    entries: tuple[Entry, ...]


PAGES: tuple[Page, ...] = (
    Page(
        "push",
        "Push jobs",
        "push jobs, and ask about them",
        "Clients for any program: a web application, a script, another worker. [tutorial.md](../tutorial.md#a-pusher) shows them at work,\n"
        "[web_servers.md](../web_servers.md) in web applications.",
        (
            Entry("pusher.client.Pusher"),
            Entry("pusher.sync_client.SyncPusher"),
            Entry("pusher.jobs.make_job"),
            Entry("pusher.results.JobResult"),
        ),
    ),
    Page(
        "options",
        "Options of jobs",
        "choose priorities, times, keys and labels of a job",
        "Options are arguments of `enqueue` and `make_job`, of `@tasks.task`, and of `using`. [unique.md](../unique.md) explains keys.",
        (
            Entry("pusher.jobs.JobOptions", is_exported=False),
            Entry("tasks.options.TaskOptions", is_exported=False),
            Entry("tasks.options.CommandOptions", is_exported=False),
            Entry("pusher.unique.Unique"),
            Entry("pusher.unique.Debounce"),
            Entry("pusher.unique.is_duplicate"),
            Entry("pusher.unique.is_replaced"),
            Entry("pusher.after.After"),
        ),
    ),
    Page(
        "tasks",
        "Declare tasks",
        "declare functions whose calls are jobs",
        "A task is a function with typed parameters; a call of it is a job. [tutorial.md](../tutorial.md#tasks) introduces tasks.",
        (
            Entry("tasks.collection.Tasks"),
            Entry("tasks.task.Task", is_constructed=False),
            Entry("tasks.task.Calls", is_exported=False, is_constructed=False),
            Entry("tasks.task.TaskJob", is_constructed=False),
            Entry("tasks.signature.INJECTED", is_constructed=False),
            Entry("sealing.Seal"),
            Entry("environment.configure"),
        ),
    ),
    Page(
        "workers",
        "Write workers",
        "write handlers, and run them",
        "A worker runs tasks, and handlers of names. [long_jobs.md](../long_jobs.md) shows progress, checkpoints and partial results,\n"
        "[deployment.md](../deployment.md) how workers are run.",
        (
            Entry("worker.worker.Worker"),
            Entry("worker.context.Context", is_constructed=False),
            Entry("worker.cancel_signal.CancelSignal"),
            Entry("errors.Interrupted", is_constructed=False),
            Entry("worker.gather.Gather"),
            Entry("worker.gather.GatherContext", is_constructed=False),
            Entry("api_limits.ApiLimits"),
            Entry("api_limits.Room", is_constructed=False),
            Entry("errors.CheckpointNotSaved", is_constructed=False),
            Entry("errors.PartNotKept", is_constructed=False),
        ),
    ),
    Page(
        "results",
        "Results, progress and logs",
        "wait for results, and follow progress and logs",
        "Handles of jobs, and the ways in which a job can end without a result. [long_jobs.md](../long_jobs.md) and\n"
        "[job_logs.md](../job_logs.md) explain progress, parts and logs.",
        (
            Entry("tasks.handle.JobHandle", is_constructed=False),
            Entry("tasks.waiting.wait_all"),
            Entry("tasks.waiting.await_all"),
            Entry("pusher.results.JobProgress", is_constructed=False),
            Entry("tasks.parts.PartStream", is_constructed=False),
            Entry("pusher.parts.JobPart", is_constructed=False),
            Entry("tasks.log_stream.LogStream", is_constructed=False),
            Entry("pusher.logs.JobLogLine", is_constructed=False),
            Entry("tasks.command.CommandOutput", is_constructed=False),
            Entry("errors.NotFinished", is_constructed=False),
            Entry("errors.NoResultError", is_constructed=False),
            Entry("errors.JobFailed", is_constructed=False),
            Entry("errors.JobCanceled", is_constructed=False),
            Entry("errors.JobDiscarded", is_constructed=False),
            Entry("errors.JobSkipped", is_constructed=False),
            Entry("errors.ResultNotKept", is_constructed=False),
            Entry("errors.ResultGone", is_constructed=False),
            Entry("errors.UnreadableResult", is_constructed=False),
        ),
    ),
    Page(
        "retries",
        "Retries and errors",
        "decide what is retried, and handle errors of calls",
        "A handler ends its attempt by returning or by raising; a pusher raises if a call does not succeed.\n"
        "[tutorial.md](../tutorial.md#failing-well) introduces retries, [errors.md](../errors.md) lists the codes of refusals.",
        (
            Entry("worker.policies.retry_on"),
            Entry("worker.policies.discard_on"),
            Entry("errors.Retry"),
            Entry("errors.Defer"),
            Entry("errors.Discard"),
            Entry("errors.Fail"),
            Entry("errors.CodedError"),
            Entry("errors.InvalidArgument", is_constructed=False),
            Entry("errors.SealError", is_constructed=False),
            Entry("errors.WorkerSdkError"),
            Entry("errors.RefusedError", is_constructed=False),
            Entry("errors.Duplicate", is_constructed=False),
            Entry("errors.UnavailableError", is_constructed=False),
            Entry("errors.AnswerMismatchError", is_constructed=False),
        ),
    ),
    Page(
        "schedules",
        "Schedules and events",
        "start jobs by the clock, or by what happens",
        "[`Tasks.every` and `Tasks.cron`](tasks.md#tasks) declare schedules, [`Pusher.send_event`](push.md#pusher) sends events.\n"
        "[definitions.md](../definitions.md) and [events.md](../events.md) explain both.",
        (
            Entry("tasks.scheduled.DefinitionOptions", is_exported=False),
            Entry("pusher.events.Event"),
            Entry("pusher.events.SentEvent"),
        ),
    ),
    Page(
        "flows",
        "Flows and batches",
        "let jobs wait for others, and group them",
        "[flows.md](../flows.md) and [batches.md](../batches.md) explain both.",
        (
            Entry("tasks.flow.chain"),
            Entry("tasks.flow.group"),
            Entry("tasks.flow.chord"),
            Entry("tasks.flow.Flow"),
            Entry("tasks.flow.FlowHandles", is_constructed=False),
            Entry("tasks.signature.INPUT", is_constructed=False),
            Entry("tasks.signature.INPUTS", is_constructed=False),
            Entry("worker.inputs.Inputs", is_constructed=False),
            Entry("worker.inputs.Input", is_constructed=False),
            Entry("errors.InputMissing", is_constructed=False),
            Entry("errors.InvalidFlow", is_constructed=False),
            Entry("tasks.batch.Batch"),
        ),
    ),
    Page(
        "outside",
        "Work that others do",
        "hand work to other systems and to people",
        "[outside_work.md](../outside_work.md) explains challenges, callbacks and forms.",
        (
            Entry("outside.OutsideWork", is_constructed=False),
            Entry("outside.Ready"),
            Entry("conditions.ready_when"),
            Entry("conditions.SinceLastRun"),
            Entry("conditions.OutstandingBelow"),
            Entry("conditions.JobIs"),
            Entry("conditions.DefinitionRan"),
            Entry("conditions.HttpOk"),
            Entry("approval.Approval", is_constructed=False),
            Entry("forms.Form"),
            Entry("forms.Choice"),
            Entry("forms.FormAnswer"),
            Entry("worker.challenge.Challenge", is_constructed=False),
            Entry("worker.challenge.Callback", is_constructed=False),
            Entry("errors.Challenged"),
        ),
    ),
    Page(
        "middleware",
        "Middleware, dependencies and traces",
        "run code around handlers and pushes",
        "[middleware.md](../middleware.md) and [tracing.md](../tracing.md) explain them.",
        (
            Entry("middleware.base.Middleware"),
            Entry("enqueueing.EnqueueMiddleware", is_exported=False, is_constructed=False),
            Entry("errors.EnqueueRefused"),
            Entry("dependencies.depends.Depends"),
            Entry("middleware.logs.JobLogs", is_exported=False),
            Entry("middleware.logs.JobContextFilter", is_exported=False),
            Entry("middleware.logs.JsonFormatter", is_exported=False),
            Entry("middleware.errors.ErrorHook", is_exported=False),
            Entry("errors.IsolatedHandlerError", is_constructed=False),
            Entry("middleware.sentry.Sentry", is_exported=False),
            Entry("middleware.django.DjangoConnections", is_exported=False),
            Entry("middleware.sqlalchemy.SqlAlchemyConnections", is_exported=False),
            Entry("tracing.instrument", is_exported=False),
            Entry("tracing.uninstrument", is_exported=False),
        ),
    ),
    Page(
        "testing",
        "Tests",
        "test without a master",
        "All but `live_master` need no master. [tutorial.md](../tutorial.md#testing-tasks) introduces the test kit.",
        (
            Entry("testing.kit.recording", is_exported=False),
            Entry("testing.records.Recorded", is_exported=False, is_constructed=False),
            Entry("testing.kit.inline", is_exported=False),
            Entry("testing.kit.drain", is_exported=False),
            Entry("testing.records.Run", is_exported=False, is_constructed=False),
            Entry("testing.harness.WorkerHarness", is_exported=False),
            Entry("testing.harness.Ending", is_exported=False),
            Entry("testing.pytest_plugin.recorded_jobs", is_exported=False),
            Entry("testing.pytest_plugin.inline_jobs", is_exported=False),
            Entry("testing.pytest_plugin.live_master", is_exported=False),
        ),
    ),
    Page(
        "outbox",
        "The outbox",
        "enqueue in the transaction of your own database",
        "[outbox.md](../outbox.md) explains what an outbox guarantees.",
        (
            Entry("outbox.sqlalchemy.SqlAlchemyOutbox", is_exported=False),
            Entry("outbox.sqlalchemy.outbox_table", is_exported=False),
            Entry("outbox.base.Outbox", is_exported=False, is_constructed=False),
            Entry("outbox.rows.OutboxStats", is_exported=False, is_constructed=False),
            Entry("outbox.relay.Relay", is_exported=False),
            Entry("outbox.relay.AsyncRelay", is_exported=False),
            Entry("outbox.in_worker.OutboxRelay", is_exported=False),
            Entry("outbox.steps.Done", is_exported=False, is_constructed=False),
        ),
    ),
    Page(
        "django",
        "Django",
        "run Django's tasks",
        "[django.md](../django.md) shows a site from its settings to its tests.",
        (
            Entry("django.backend.JqmasterBackend", is_exported=False, is_constructed=False),
            Entry("django.options.JqmasterTask", is_exported=False, is_constructed=False),
            Entry("django.outbox.DjangoOutbox", is_exported=False),
            Entry("django.worker.django_worker", is_exported=False),
        ),
    ),
)
ENTRIES: tuple[Entry, ...] = tuple(entry for page in PAGES for entry in page.entries)
# Public methods that only other files of the package use. Users do not need them.
INTERNAL = frozenset(
    {"to_wire", "renew", "start_mounted", "stop", "find", "set", "assembly"}
    | {
        "ain_transaction",
        "aread",
        "apush_own",
        "destination",
        "initial_lease_ms",
        "in_transaction",
        "insert",
        "is_in_a_job_or_recorded",
        "note",
        "note_error",
        "own_steps",
        "push_own",
        "read",
        "steps_of_many",
    }
    | {"codec", "decode_result", "handle_of", "handler_of", "make", "own_pushers", "pushers"}
    | {"known_store", "note_store", "open_with", "take_unsaved"}
    | {
        "argument_for_any_id",
        "checkpoint_bytes",
        "known_value",
        "opened_argument",
        "opened_checkpoint",
        "opened_failure",
    }
    | {"seal", "seal_job", "sealed", "sealed_checkpoint", "sealed_failure", "sealed_for_name", "tag"}
)

# Methods that the class `Middleware` explains, so that its subclasses need not.
HOOKS = frozenset({"on_start", "on_stop", "around_job", "around_async_job", "around_enqueue"})

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.AnnAssign
# Descriptions of constants. A constant has no docstring.
CONSTANTS = {
    "INJECTED": "Default of a parameter that is annotated with `Context`: the worker fills it, and callers omit it.",
    "INPUT": "Default of a parameter of a task: the worker fills it with the result of the job for which the job "
    "waited, as the annotation says, unless the call gives a value. None stands for a job that did not succeed.",
    "INPUTS": "Default of a parameter of a task that is annotated with a list: the worker fills it with the results "
    "of the jobs for which the job waited, in order, unless the call gives a value.",
}


def reference() -> dict[Path, str]:
    """Return the texts of the pages by path."""
    return {INDEX: _index(), **{FOLDER / f"{page.slug}.md": _page(page) for page in PAGES}}


def _index() -> str:
    rows = [
        f"| {page.wish} | [{page.title}](sdk/{page.slug}.md) | {', '.join(f'`{one.name}`' for one in page.entries)} |"
        for page in PAGES
    ]
    links = sorted(
        (entry.name.lower(), f"[`{entry.name}`](sdk/{page.slug}.md#{anchors(page)[entry.name]})")
        for page in PAGES
        for entry in page.entries
    )
    table = "\n".join(["| I want to … | page | names |", "|---|---|---|", *rows])
    return "\n".join(
        [_HEAD, table + "\n", "## All names\n", " · ".join(link for _, link in links) + "\n", _TAIL]
    )


def _page(page: Page) -> str:
    contents = ", ".join(f"[`{one.name}`](#{anchors(page)[one.name]})" for one in page.entries)
    head = (
        f"# {page.title}\n\n{page.intro}\n\n{_WRITTEN} [All pages](../sdk.md)\n\nOn this page: {contents}.\n"
    )
    return "\n".join([head, *(_entry(page, entry) for entry in page.entries)])


@functools.cache
def anchors(page: Page) -> dict[str, str]:
    """Return the anchors of the names on a page, as code forges make them. A repeated heading gets a number."""
    seen = {page.title.lower().replace(",", "").replace(" ", "-"): 1}
    found = {}
    for entry in page.entries:
        found[entry.name] = _anchor(entry.name, seen)
        node = definition(entry)
        for one in members(node) if isinstance(node, ast.ClassDef) else ():
            _anchor(one.name, seen)
    return found


def _anchor(heading: str, seen: dict[str, int]) -> str:
    plain = heading.lower()
    number = seen[plain] = seen.get(plain, 0) + 1
    return plain if number == 1 else f"{plain}-{number - 1}"


@dataclass(frozen=True)
class Example:
    """A file in docs/sdk/examples. `shows`: the names for which it is an example. The page shows it at the first of
    these names."""

    file: Path
    shows: tuple[str, ...]
    code: str


@functools.cache
def examples() -> tuple[Example, ...]:
    """Return all examples, sorted by file name."""
    found = []
    for file in sorted((ROOT / EXAMPLES).glob("*.py")):
        head, _, code = file.read_text("utf-8").partition("\n")
        if not head.startswith("# Shows: "):
            raise ValueError(f"{file.name} begins with `# Shows: `, and names that it is an example of")
        found.append(Example(file, tuple(head.removeprefix("# Shows: ").split(", ")), code))
    return tuple(found)


def _example(page: Page, entry: Entry) -> str:
    for example in examples():
        if entry.name in example.shows:
            break
    else:
        return ""
    first = example.shows[0]
    if first == entry.name:
        return "An example:\n\n" + _code(example.code.strip())
    place = next(one for one in PAGES if first in anchors(one))
    return (
        f"An example: [`{first}`]({'' if place is page else f'{place.slug}.md'}#{anchors(place)[first]}).\n"
    )


# Base classes that have some of the methods of another class. The page shows these methods at the other class.
HALVES = {"CheckpointCalls": "worker.checkpoint_calls", "EnqueueCalls": "worker.enqueue_calls"}


def definition(entry: Entry) -> Definition:
    """Return the source of a name. If there are overloads, return the implementation."""
    node: Definition = _node(entry.module, entry.name)
    if isinstance(node, ast.ClassDef):
        while halves := [one for one in node.bases if isinstance(one, ast.Name) and one.id in HALVES]:
            half = _node(HALVES[halves[0].id], halves[0].id)
            node.bases = [*half.bases, *(one for one in node.bases if one is not halves[0])]
            node.body += [one for one in half.body if isinstance(one, Function)]
    return node


def _node(module: str, name: str) -> Any:
    found = [
        node
        for node in _tree(module).body
        if isinstance(node, Definition) and name in (getattr(node, "name", ""), _target(node))
    ]
    return found[-1]


@functools.cache
def _tree(module: str) -> ast.Module:
    return ast.parse((ROOT / "worker_sdk" / f"{module.replace('.', '/')}.py").read_text("utf-8"))


def _target(node: Definition) -> str:
    return node.target.id if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else ""


def members(node: ast.ClassDef) -> Iterator[Function]:
    """Yield the methods and properties that users call."""
    hidden = INTERNAL if node.name.endswith("Middleware") else INTERNAL | HOOKS
    for one in node.body:
        if not isinstance(one, Function) or one.name.startswith("_") or one.name in hidden:
            continue
        # Skip overloads, which have no docstring. The implementation follows them.
        if not any(isinstance(given, ast.Name) and given.id == "overload" for given in one.decorator_list):
            yield one


def parameters(function: Function | ast.AnnAssign) -> list[str]:
    """Return the names of the parameters, without `self`."""
    if isinstance(function, ast.AnnAssign):
        return []
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [one.arg for one in every if one.arg != "self"]


def constructor(node: ast.ClassDef) -> Function | None:
    """Return `__init__` if the class itself defines it, and otherwise None."""
    return next((one for one in node.body if isinstance(one, Function) and one.name == "__init__"), None)


def fields(node: ast.ClassDef) -> list[ast.AnnAssign]:
    """Return the public annotated attributes of a dataclass or a TypedDict."""
    return [
        one
        for one in node.body
        if isinstance(one, ast.AnnAssign)
        and isinstance(one.target, ast.Name)
        and not one.target.id.startswith("_")
    ]


def text_of(node: Definition) -> str:
    """Return the docstring of a definition."""
    if isinstance(node, ast.AnnAssign):
        return CONSTANTS[_target(node)]
    return inspect.cleandoc(ast.get_docstring(node) or "")


def _entry(page: Page, entry: Entry) -> str:
    node = definition(entry)
    place = "" if entry.is_exported else f"From `{entry.package}`.\n\n"
    lines = [f"## `{entry.name}`\n", f"{place}{_code(_heading(entry, node))}\n{text_of(node)}\n"]
    if example := _example(page, entry):
        lines.append(example)
    if isinstance(node, ast.ClassDef):
        for one in members(node):
            lines += [_member(one)]
    return "\n".join(lines)


def _heading(entry: Entry, node: Definition) -> str:
    if isinstance(node, ast.AnnAssign):
        return ast.unparse(node)
    if not isinstance(node, ast.ClassDef):
        return _signature(node, node.name)
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    if (init := constructor(node)) and entry.is_constructed:
        return _signature(init, node.name)
    head = f"class {node.name}({bases})" if bases else f"class {node.name}"
    return "\n".join(
        [head + (":" if fields(node) else ""), *(f"    {_quoted(ast.unparse(one))}" for one in fields(node))]
    )


def _member(function: Function) -> str:
    if "property" in _decorators(function):
        heading = f"{function.name}: {_annotation(function.returns)}"
    else:
        heading = _signature(function, function.name)
    return f"### `{function.name}`\n\n{_code(heading)}\n{text_of(function)}\n"


def _decorators(function: Function) -> set[str]:
    """Return the names of the function's decorators."""
    calls = (one.func if isinstance(one, ast.Call) else one for one in function.decorator_list)
    return {ast.unparse(one) for one in calls}


def _signature(function: Function, name: str) -> str:
    given = function.args
    prefix = next((BLOCKS[one] for one in _decorators(function) if one in BLOCKS), "")
    parts = [_parameter(arg, default) for arg, default in _with_defaults(given) if arg.arg != "self"]
    if given.vararg:
        parts.append(f"*{_parameter(given.vararg, None)}")
    elif given.kwonlyargs:
        parts.append("*")
    parts += [
        _parameter(arg, default) for arg, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
    ]
    if given.kwarg:
        parts.append(f"**{_parameter(given.kwarg, None)}")
    returns = "" if prefix or function.name == "__init__" else f" -> {_annotation(function.returns)}"
    if not prefix and isinstance(function, ast.AsyncFunctionDef):
        prefix = "await "
    line = f"{prefix}{name}({', '.join(parts)}){returns}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{prefix}{name}(", *(f"    {part}," for part in parts), f"){returns}"])


def _with_defaults(given: ast.arguments) -> list[tuple[ast.arg, ast.expr | None]]:
    positional = [*given.posonlyargs, *given.args]
    without: list[ast.expr | None] = [None] * (len(positional) - len(given.defaults))
    return list(zip(positional, [*without, *given.defaults], strict=True))


def _parameter(argument: ast.arg, default: ast.expr | None) -> str:
    text = f"{argument.arg}: {_annotation(argument.annotation)}" if argument.annotation else argument.arg
    return text if default is None else f"{text} = {_quoted(ast.unparse(default))}"


def _annotation(node: ast.expr | None) -> str:
    # Remove the quotes of an annotation, because readers need not see them.
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return "None" if node is None else _quoted(ast.unparse(node))


def _quoted(text: str) -> str:
    return text.replace("'", '"')


def _code(text: str) -> str:
    return f"```python\n{text}\n```\n"


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    texts = reference()
    for old in (ROOT / FOLDER).glob("*.md"):
        if FOLDER / old.name not in texts:
            old.unlink()
    for target, text in texts.items():
        (ROOT / target).write_text(text, "utf-8")
