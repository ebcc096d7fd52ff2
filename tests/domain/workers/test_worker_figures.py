"""Figures of workers: rates, and marks from a comparison with workers that serve the same names."""

from jqmaster.domain.operations.tally import WorkerCounts
from jqmaster.domain.workers.worker import Worker, WorkerSpec
from jqmaster.domain.workers.worker_figures import Figures, figures_of, groups_of

NOW_MS = 1_800_000_000_000
SINCE_MS = NOW_MS - 300_000


def worker(
    worker_id: str, *names: str, node: str = "node", version: str = "1", registered_ms: int = 0, **labels: str
) -> Worker:
    spec = WorkerSpec(None, names or ("work",), 10, node, 1, labels, version, "s" * 32)
    return Worker(
        worker_id,
        spec,
        NOW_MS - 3_600_000 + registered_ms,
        NOW_MS,
        is_draining=False,
        is_detached=False,
        busy=0,
    )


def counted(run_ms: int = 100, *, succeeded: int = 100, failed: int = 0) -> WorkerCounts:
    counts = WorkerCounts(succeeded, failed)
    counts.run.add(run_ms, succeeded + failed)
    return counts


def figures(workers: list[Worker], **counts: WorkerCounts) -> dict[str, Figures]:
    return figures_of(workers, counts, since_ms=SINCE_MS, now_ms=NOW_MS)


def marks(workers: list[Worker], **counts: WorkerCounts) -> dict[str, tuple[str, ...]]:
    return {worker_id: one.marks for worker_id, one in figures(workers, **counts).items() if one.marks}


def test_the_rate_of_a_new_worker_is_of_its_own_time() -> None:
    workers = [
        worker("old"),
        worker("new", registered_ms=3_540_000),
        worker("newest", registered_ms=3_599_000),
    ]
    found = figures(
        workers, old=counted(succeeded=300), new=counted(succeeded=60), newest=counted(succeeded=10)
    )
    assert {worker_id: one.per_s for worker_id, one in found.items()} == {"old": 1, "new": 1, "newest": 1}
    assert found["new"].since_ms == NOW_MS - 60_000
    idle = figures([worker("idle")])["idle"]
    assert (idle.per_s, idle.failed_share, idle.counts.run.distribution()) == (0, None, None)


def test_a_worker_is_slow_beside_those_that_serve_the_same_names() -> None:
    three = [worker("a"), worker("b"), worker("c")]
    assert marks(three, a=counted(), b=counted(120), c=counted(900)) == {"c": ("slow",)}
    # With two workers, the fast one is the reference.
    assert marks(three[:2], a=counted(), b=counted(900)) == {"b": ("slow",)}
    assert marks(three, a=counted(), b=counted(120), c=counted(900, succeeded=19)) == {}, "too few attempts"
    assert marks(three, a=counted(2), b=counted(2), c=counted(8)) == {}, "by some milliseconds"
    reports = [worker("a"), worker("b"), worker("c", "report")]
    assert marks(reports, a=counted(), b=counted(), c=counted(60_000)) == {}, "it does other work"


def test_a_worker_fails_beside_those_that_serve_the_same_names() -> None:
    three = [worker("a"), worker("b"), worker("c")]
    good, bad = counted(), counted(succeeded=80, failed=20)
    assert marks(three, a=good, b=good, c=bad) == {"c": ("failing",)}
    assert marks(three, a=bad, b=bad, c=bad) == {}, "the fault is not that of a worker"
    assert marks(three, a=good, b=good, c=counted(succeeded=97, failed=3)) == {}
    assert marks([worker("a")], a=bad) == {}, "nobody to compare it with"
    both = counted(900, succeeded=80, failed=20)
    assert marks(three, a=good, b=good, c=both) == {"c": ("slow", "failing")}


def test_groups_have_the_figures_of_their_workers_together() -> None:
    workers = [
        worker("a", node="n1", version="2", zone="x", tier="hot"), worker("b", node="n1", version="1", zone="y"),
        worker("c", node="n2", version="1", zone="x"), worker("d", node="", version=""),
    ]  # fmt: skip
    found = figures(workers, a=counted(900, succeeded=300), b=counted(), c=counted(failed=50), d=counted())

    def grouped(kind: str) -> dict[str, tuple[int, int, float, tuple[str, ...]]]:
        groups = groups_of(kind, workers, found, now_ms=NOW_MS)  # type: ignore[arg-type]
        return {
            f"{group.label or ''}={group.value}": (
                len(group.workers), group.figures.attempts, round(group.figures.per_s, 2), group.figures.marks,
            )
            for group in groups
        }  # fmt: skip

    assert grouped("version") == {"=1": (2, 250, 0.83, ("failing",)), "=2": (1, 300, 1.0, ("slow",))}
    assert grouped("node") == {"=n1": (2, 400, 1.33, ("slow",)), "=n2": (1, 150, 0.5, ("failing",))}
    assert list(grouped("label")) == ["tier=hot", "zone=x", "zone=y"]
    assert groups_of("node", [], {}, now_ms=NOW_MS) == []
