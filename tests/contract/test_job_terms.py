"""Job terms have one source. Code that cannot import it and texts that repeat it agree with it."""

import inspect
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jqmaster.api.encoding import fast_path
from jqmaster.api.encoding.validator import ScanLimits
from jqmaster.api.jobs.schemas import JobRequest, RetryRequest
from jqmaster.cli.commands.enqueue import enqueue
from jqmaster.domain.jobs import job_terms as terms
from jqmaster.domain.jobs.job import JobSpec, RetryPolicy
from worker_sdk import option_types
from worker_sdk.pusher.jobs import JobOptions

pytestmark = pytest.mark.req("J2")

ROOT = Path(__file__).parents[2]
FIELDS = set(JobRequest.model_fields)


def test_the_sdk_has_an_option_for_each_field_of_a_job() -> None:
    named = {"expires": "expires_s"}
    options = {named.get(option, option) for option in JobOptions.__annotations__}
    assert options | {"name", "argument"} == FIELDS


def test_the_command_line_has_an_option_for_each_field_of_a_job() -> None:
    parameters = set(inspect.signature(enqueue).parameters)
    named = {
        "tags": "tag",
        "headers": "header",
        "id": "job_id",
        "notify_url": "notify",
        "requires": "require",
    }
    assert {named.get(field, field) for field in FIELDS} <= parameters


def test_the_sdk_tells_the_defaults_and_bounds_of_the_master() -> None:
    # Python 3.13 removes the indentation itself.
    text = inspect.getdoc(JobOptions)
    assert text
    told = dict(re.findall(r"\* `(\w+)`: (.*?)(?=\n\*|\Z)", text, re.DOTALL))
    assert f"Default {terms.PRIORITY.default}." in told["priority"]
    assert f"Default {terms.MAX_RETRY.default}." in told["max_retry"]
    assert f"Default {terms.TIMEOUT_S.default:g} s." in told["timeout"]
    assert f"up to {terms.TIMEOUT_S.most // terms.DAY_S} days" in told["timeout"]
    assert f"up to {terms.MAX_TAGS} words" in told["tags"]
    assert f"up to {terms.MAX_HEADERS} texts" in told["headers"]
    for name in RetryRequest.model_fields:
        assert f"`{name}`" in told["retry"]


def test_the_form_of_the_web_ui_begins_with_the_defaults_of_the_master() -> None:
    # Ignore the line breaks.
    form = re.sub(r"\s+", "", (ROOT / "jqmaster" / "web" / "jobs" / "pages" / "enqueue.js").read_text())
    assert f'priority:"{terms.PRIORITY.default}"' in form
    assert f'max_retry:"{terms.MAX_RETRY.default}"' in form
    assert f'timeout:"{terms.TIMEOUT_S.default:g}"' in form
    assert re.search(rf'name="max_retry"[^/]*min="{terms.MAX_RETRY.least}"max="{terms.MAX_RETRY.most}"', form)


def test_a_job_of_which_nothing_is_told_is_the_same_by_each_way() -> None:
    spec = JobSpec("j", "n", b"\xc0")
    assert JobRequest(name="n").to_spec("j") == spec
    data = msgspec.msgpack.encode({"name": "n", "id": "0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e"})
    usual: Any = fast_path.usual_job(data, ScanLimits(max_nesting=8, max_nodes=200))
    usual.id = "j"
    assert usual == spec
    retry = RetryRequest()
    assert RetryPolicy() == RetryPolicy(retry.base_s, retry.factor, retry.max_s, retry.jitter)


# The places where a plain job term is accepted, stored, shown, and pushed by the SDK and the command line.
PLACES = {
    "jqmaster/domain/jobs/job.py", "jqmaster/store/codec.py", "jqmaster/api/jobs/schemas.py",
    "jqmaster/spec/examples/definitions.py", "jqmaster/cli/commands/enqueue.py", "worker_sdk/pusher/jobs.py",
}  # fmt: skip
# Signatures of task-making functions, read by editors and type checkers, and what the SDK checks of their values.
SIGNATURES = {
    "worker_sdk/tasks/collection.py", "worker_sdk/tasks/options.py", "worker_sdk/django/options.py",
    "worker_sdk/option_types.py",
}  # fmt: skip
# Files that act on the term.
USERS = {
    "jqmaster/domain/jobs/outcome.py",
    "jqmaster/domain/notices/delivery.py",
    "jqmaster/service/fireworq/pushes.py",
}


def test_a_term_of_a_job_is_named_in_six_files() -> None:
    """`rerun_lost` stands for all terms: definitions, batches and their stored forms take it from the term lists."""
    named = {
        str(path.relative_to(ROOT))
        for package in ("jqmaster", "worker_sdk")
        for path in (ROOT / package).rglob("*.py")
        if re.search(r"\brerun_lost\b", path.read_text())
    }
    assert named - SIGNATURES - USERS == PLACES
    assert len(PLACES) <= 6


def test_the_type_of_each_option_is_checked_where_it_is_written() -> None:
    # `after` is checked where it is converted.
    assert set(option_types.KINDS) == set(JobOptions.__annotations__) - {"after"}
