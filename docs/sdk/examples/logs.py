# Shows: LogStream, JobLogLine
from worker_sdk import INJECTED, Context, JobLogLine, LogStream, Tasks

tasks = Tasks()


@tasks.task("stock.check")
def check(shop: str, ctx: Context = INJECTED) -> None:
    ctx.logger.info("checking %s", shop)
    ctx.logger.warning("two articles are missing")


def shown(line: JobLogLine) -> str:
    return f"{line.level}: {line.text}"


if __name__ == "__main__":
    lines: LogStream = check.enqueue("Kyoto").logs(level="warning", follow=True)  # until the job is over
    assert [shown(line) for line in lines] == ["warning: two articles are missing"]
