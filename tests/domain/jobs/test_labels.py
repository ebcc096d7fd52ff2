"""Labels that tell jobs of one name apart."""

from typing import Any

import pytest

from jqmaster.domain.jobs.labels import MAX_LABEL, LabelFacts, labels

pytestmark = pytest.mark.req("D21")


def of(*arguments: Any, keys: tuple[str | None, ...] = (), tags: tuple[str, ...] = ()) -> list[str | None]:
    """Return the labels of jobs of one name with these arguments."""
    jobs = [
        LabelFacts(str(n), "work", keys[n] if keys else None, argument, (tags[n],) if tags else ())
        for n, argument in enumerate(arguments)
    ]
    found = labels(jobs)
    return [found.get(job.id) for job in jobs]


def test_the_key_comes_first_if_it_distinguishes_all() -> None:
    assert of({"n": 1}, {"n": 2}, keys=("order-1", "order-2")) == ["order-1", "order-2"]
    assert of({"n": 1}, {"n": 2}, keys=("same", "same")) == ["n=1", "n=2"]
    assert of({"n": 1}, {"n": 2}, keys=("one", None)) == ["n=1", "n=2"]


def test_the_argument_gives_the_fewest_values_that_tell_most_apart() -> None:
    assert of({"kind": "x", "width": 160}, {"kind": "x", "width": 320}) == ["width=160", "width=320"]
    photos = [{"photo": p, "width": w, "quality": 80} for p in ("a", "b") for w in (160, 320)]
    assert of(*photos) == [
        "photo=a width=160", "photo=a width=320", "photo=b width=160", "photo=b width=320",
    ]  # fmt: skip
    assert of({"job": {"page": 1}}, {"job": {"page": 2}}) == ["job.page=1", "job.page=2"]
    assert of(["load", "a"], ["load", "b"]) == ["1=a", "1=b"]
    assert of("first", "second") == ["first", "second"]


def test_a_shallow_value_is_taken_before_a_deep_one_that_tells_no_more() -> None:
    assert of({"deep": {"id": 7}, "id": 1}, {"deep": {"id": 8}, "id": 2}) == ["id=1", "id=2"]


def test_the_part_that_addresses_share_is_left_out() -> None:
    assert of("https://photos.example/a/12.jpg", "https://photos.example/a/13.jpg") == ["…12.jpg", "…13.jpg"]


def test_tags_are_the_last_resort_and_alike_jobs_have_no_label() -> None:
    assert of({"n": 1}, {"n": 1}, tags=("north", "south")) == ["north", "south"]
    assert of({"n": 1}, {"n": 1}) == [None, None]
    assert of(None, None) == [None, None]
    assert of({"n": 1}) == [None]


def test_a_job_whose_value_is_missing_or_of_another_kind_has_what_there_is() -> None:
    assert of({"n": 1}, {"n": 2}, {"m": b"binary"}) == ["n=1", "n=2", None]


def test_labels_are_bounded() -> None:
    found = of(
        {"a": "x" * 1_000, "b": {"c": {"d": {"e": 1}}}}, {"a": "y" * 1_000, "b": {"c": {"d": {"e": 2}}}}
    )
    assert all(label is not None and len(label) <= MAX_LABEL for label in found)
    wide = [{str(key): key * n for key in range(500)} for n in range(300)]
    assert len(set(of(*wide))) > 250


def test_jobs_of_another_name_do_not_matter() -> None:
    jobs = [LabelFacts("1", "load", None, {"n": 1}, ()), LabelFacts("2", "publish", None, {"n": 2}, ())]
    assert labels(jobs) == {}
