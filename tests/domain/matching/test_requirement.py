from hypothesis import given
from hypothesis import strategies as st

from jqmaster.domain.matching.requirement import is_met, name_of, queue_of, queues_for, requires_of

LABELS = st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=8), max_size=4)


@given(requires=LABELS)
def test_a_queue_tells_its_name_and_labels_in_one_line(requires: dict[str, str]) -> None:
    queue = queue_of("mail.send", requires)
    assert (name_of(queue), requires_of(queue)) == ("mail.send", requires)
    assert "\n" not in queue
    assert queue_of("mail.send", dict(reversed(requires.items()))) == queue
    assert (queue == "mail.send") == (not requires)


def test_no_requirement_is_the_name() -> None:
    assert queue_of("a", None) == queue_of("a", {}) == "a"
    assert requires_of("a") == {}


@given(requires=LABELS, labels=LABELS)
def test_a_requirement_is_met_by_all_of_its_labels(requires: dict[str, str], labels: dict[str, str]) -> None:
    assert is_met(requires, {**labels, **requires})
    assert is_met(requires, labels) == (requires.items() <= labels.items())


def test_a_worker_runs_the_queues_of_its_names_whose_labels_it_has() -> None:
    gpu, gpu_b, other = (
        queue_of("a", {"gpu": "1"}),
        queue_of("a", {"gpu": "1", "zone": "b"}),
        queue_of("b", {"gpu": "1"}),
    )
    queues = [other, gpu_b, gpu, "a\tno JSON", 'a\t["gpu"]', 'a\t{"gpu":1}']
    assert queues_for(["a"], {"gpu": "1", "zone": "b"}, queues) == tuple(sorted([gpu, gpu_b]))
    assert queues_for(["a", "b"], {"gpu": "1"}, queues) == tuple(sorted([gpu, other]))
    assert queues_for(["a", "b"], {}, queues) == ()
