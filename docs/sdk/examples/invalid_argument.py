# Shows: InvalidArgument
from typing import Any

from worker_sdk import InvalidArgument, Tasks
from worker_sdk.testing import recording

tasks = Tasks()


@tasks.task("mail.send")
def send(user_id: int, template: str = "welcome") -> None: ...


typed: dict[str, Any] = {"user_id": "ada"}
with recording() as jobs:
    try:
        send.enqueue(**typed)
    except InvalidArgument as wrong:
        assert (wrong.task, wrong.problems[0][0]) == ("mail.send", "user_id")
assert not jobs
