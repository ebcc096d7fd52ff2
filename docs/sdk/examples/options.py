# Shows: JobOptions, TaskOptions, make_job
from datetime import timedelta

from worker_sdk import Tasks, make_job
from worker_sdk.pusher import JobOptions
from worker_sdk.tasks.options import TaskOptions
from worker_sdk.testing import recording

NIGHT: JobOptions = {
    "priority": 10,
    "max_retry": 8,
    "timeout": 600,
    "expires": timedelta(hours=8),
    "tags": ["night"],
}
URGENT: TaskOptions = {"priority": -10, "delay": 5}

job = make_job("report.build", {"day": "2026-11-28"}, **NIGHT)  # for `enqueue_job` and `enqueue_many`
assert (job["name"], job["priority"], job["tags"]) == ("report.build", 10, ["night"])

tasks = Tasks()


@tasks.task("mail.send", max_retry=3)
def send(user_id: int) -> None: ...


with recording() as jobs:
    send.using(**URGENT).enqueue(1)
assert jobs.only(send).options["priority"] == -10
