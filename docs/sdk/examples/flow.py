# Shows: Flow, FlowHandles, InvalidFlow
from worker_sdk import INPUTS, Flow, FlowHandles, InvalidFlow, Tasks
from worker_sdk.testing import inline

tasks = Tasks()


@tasks.task("part.check", keep_result=True)
def check(part: int) -> int:
    return part * 10


@tasks.task("report.join", keep_result=True)
def join(parts: list[int] = INPUTS) -> str:
    return f"{len(parts)} parts, {sum(parts)} rows"


flow = Flow()
parts = [flow.add(check.to_job(part)) for part in (1, 2)]
report = flow.add(join.to_job(), after=parts)
with inline():
    handles: FlowHandles[str] = flow.enqueue()
    assert handles[report].get() == "2 parts, 30 rows"
    assert [handle.name for handle in handles] == ["part.check", "part.check", "report.join"]

flow.after(parts[0], report)  # a circle
try:
    flow.to_jobs()
except InvalidFlow as wrong:
    assert "wait" in str(wrong)
