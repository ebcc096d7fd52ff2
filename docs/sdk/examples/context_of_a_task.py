# Shows: INJECTED
from worker_sdk import INJECTED, Context, Tasks
from worker_sdk.testing import inline

tasks = Tasks()


@tasks.task("report.build", keep_result=True)
def build(day: str, ctx: Context = INJECTED) -> str:
    ctx.logger.info("building %s", day)
    return f"{day}, attempt {ctx.attempt}"


with inline():
    assert build.enqueue("2026-11-28").get() == "2026-11-28, attempt 1"
