# Shows: chain, group, chord, INPUT, INPUTS
from worker_sdk import INPUT, INPUTS, Tasks, chain, chord, group
from worker_sdk.testing import inline

tasks = Tasks()


@tasks.task("page.load")
def load(url: str) -> str:
    return f"the page at {url}"


@tasks.task("page.count")
def count(text: str = INPUT) -> int:  # the result of the step before
    return len(text.split())


@tasks.task("page.sum", keep_result=True)
def add(counts: list[int] = INPUTS) -> int:  # the results of all steps before
    return sum(counts)


with inline():
    assert chain(load.to_job("a"), count.to_job(), add.to_job()).enqueue().last.get() == 4
    pages = group(chain(load.to_job(url), count.to_job()) for url in ("a", "b", "c"))
    assert chord(pages, add.to_job()).enqueue().last.get() == 12
