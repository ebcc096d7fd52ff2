"""Each line of an export is checked before anything is imported, and nothing in it is dropped silently."""

import io
import json
from typing import Any

import pytest

from jqmaster.cli.transfer.export_files import CheckedFile, check
from jqmaster.cli.transfer.lines import LineError, Unknown, written
from jqmaster.domain.ids import new_id

pytestmark = pytest.mark.req("D31")

AT = "2026-11-28T12:00:00.000Z"
HEAD = written("export", "jq", {"version": "9.9", "shard": "jq", "exported_at": AT, "secrets": False})
FACTS = {"state": "ready", "created_at": AT}


def job(**fields: Any) -> bytes:
    return written("job", new_id(), {"name": "work", "argument": [1], **fields}, FACTS)


def file_of(*lines: bytes, count: int | None = None) -> io.BytesIO:
    end = written("end", "", {"lines": {"job": len(lines) if count is None else count}})
    return io.BytesIO(b"".join([HEAD, *lines, end]))


def changed(line: bytes, **members: Any) -> bytes:
    return json.dumps(json.loads(line) | members).encode() + b"\n"


def checked(stream: io.BytesIO, *, skips: bool = False) -> CheckedFile:
    return check(stream, Unknown(skips))


def fault(stream: io.BytesIO, *, skips: bool = False) -> str:
    with pytest.raises(LineError) as caught:
        checked(stream, skips=skips)
    return caught.value.text


def test_a_whole_file_is_counted_by_kind() -> None:
    found = checked(file_of(job(), job(priority=3)))
    assert (found.head.version, dict(found.counts)) == ("9.9", {"job": 2})


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        (io.BytesIO(b""), "has no line of kind end"),
        (io.BytesIO(b"\n"), "has no line of kind end"),
        (io.BytesIO(HEAD), "has no line of kind end"),
        (file_of(job(), count=2), "the file has 1 objects, and had 2"),
        (io.BytesIO(job()), "line 1: an export begins with one line of kind export"),
        (io.BytesIO(HEAD + HEAD), "line 2: an export begins with one line of kind export"),
        (io.BytesIO(file_of().getvalue() + job()), "line 3: follows the last line"),
        (file_of(b"{\n"), "line 2: not JSON"),
        (file_of(b"[]\n"), "line 2: not a line of an export"),
        (file_of(changed(job(), format="1")), "`format` a whole number"),
        (file_of(changed(job(), document=[])), "`document` and `facts` must be objects"),
        (file_of(job(priority="high")), "priority: Input should be a valid integer"),
        (file_of(changed(job(), id="x")), "must be the ID of a job"),
        (file_of(changed(job(), facts={**FACTS, "argument_packed": "?"})), "argument_packed is not base64"),
        (file_of(changed(job(), facts={**FACTS, "state": "succeeded"})), "must be a state of a job that is not over"),
        (file_of(written("user", "ada", {"role": "admin", "created_at": AT, "password_hash": "md5"})), "password_hash"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_file_that_is_not_whole_or_not_valid_is_refused_with_its_line(
    stream: io.BytesIO, words: str
) -> None:
    assert words in fault(stream)


def test_all_faults_up_to_twenty_are_named_at_once() -> None:
    text = fault(file_of(*[job(priority="high") for _ in range(30)]))
    assert text.count("priority") == 20


@pytest.mark.parametrize(
    ("line", "words", "told"),
    [
        (changed(job(), kind="saga"), "this version knows no such kind", {"saga": 1}),
        (changed(job(), format=2), "format 2 is newer than this version, which reads up to 1", {"job": 1}),
        (job(color="red"), "color: this version knows no such field", {"job.color": 1}),
        (
            job(retry={"base_s": 1.0, "colour": 1}),
            "retry.colour: this version knows no such field",
            {"job.retry.colour": 1},
        ),
        (
            changed(job(), facts={**FACTS, "mood": "good"}),
            "mood: this version knows no such field",
            {"job.mood": 1},
        ),
    ],
)
def test_fields_of_a_later_version_are_refused_or_counted(
    line: bytes, words: str, told: dict[str, int]
) -> None:
    assert words in fault(file_of(line))
    found = checked(file_of(line, job()), skips=True)
    assert dict(found.unknown.kinds + found.unknown.fields) == told


def test_members_of_a_line_that_are_unknown_are_told_too() -> None:
    assert "unknown members signature" in fault(file_of(changed(job(), signature="x")))
    found = checked(file_of(changed(job(), signature="x")), skips=True)
    assert (dict(found.counts), dict(found.unknown.fields)) == ({"job": 1}, {"job.signature": 1})


def test_jobs_with_predecessors_are_noted_with_the_place_of_their_lines() -> None:
    first, second = job(), job(after={"jobs": [new_id()]})
    found = checked(file_of(first, second))
    ((offset, job_id, after),) = found.dependents
    assert offset == len(HEAD) + len(first)
    assert json.loads(second)["id"] == job_id
    assert len(after.jobs) == 1
