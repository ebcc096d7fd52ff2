# Shows: PartStream, JobPart
from dataclasses import dataclass

from worker_sdk import INJECTED, Context, JobPart, PartStream, Tasks

tasks = Tasks()


@dataclass
class Row:
    page: int


@tasks.task("pages.render")
async def render(pages: int, ctx: Context = INJECTED) -> None:
    for page in range(pages):
        await ctx.emit({"page": page})


def shown(part: JobPart[Row]) -> str:
    return f"{part.attempt}.{part.number}: page {part.value.page}"


if __name__ == "__main__":
    stream: PartStream[Row] = render.enqueue(2).stream(Row)
    assert [shown(part) for part in stream] == ["1.1: page 0", "1.2: page 1"]
