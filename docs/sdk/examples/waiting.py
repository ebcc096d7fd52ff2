# Shows: wait_all, await_all
import asyncio

from worker_sdk import Tasks, await_all, wait_all
from worker_sdk.testing import inline

tasks = Tasks()


@tasks.task("number.square", keep_result=True)
def square(number: int) -> int:
    return number * number


async def squares() -> list[int]:
    return await await_all([await square.aenqueue(number) for number in range(3)], timeout=30)


with inline():
    assert wait_all([square.enqueue(number) for number in range(3)], timeout=30) == [0, 1, 4]
    assert asyncio.run(squares()) == [0, 1, 4]
