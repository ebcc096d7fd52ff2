# Shows: TaskJob
from worker_sdk import TaskJob, Tasks
from worker_sdk.testing import recording

tasks = Tasks()


@tasks.task("mail.welcome")
def welcome(user_id: int) -> None: ...


def jobs_for(users: list[int]) -> list[TaskJob[None]]:
    return [welcome.using(priority=5).to_job(user_id) for user_id in users]


with recording() as sent:
    welcome.many(jobs_for([1, 2]))
assert [job.arguments["user_id"] for job in sent] == [1, 2]
assert sent[0].options["priority"] == 5
