# Shows: recording, Recorded
from worker_sdk import Tasks
from worker_sdk.testing import Recorded, recording

tasks = Tasks()


@tasks.task("mail.welcome")
def welcome(user_id: int) -> None: ...


def sign_up(user_id: int) -> None:  # the code to test
    welcome.using(delay=60).enqueue(user_id)


with recording() as jobs:
    sign_up(1)
    sign_up(2)
assert isinstance(jobs, Recorded)
assert jobs.only(welcome, user_id=2).options["delay"] == 60
assert len(jobs.of(welcome)) == 2
