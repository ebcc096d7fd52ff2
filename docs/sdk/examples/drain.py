# Shows: drain, Run
from worker_sdk import Tasks
from worker_sdk.testing import Run, drain, recording

tasks = Tasks()
sent: list[str] = []


@tasks.task("mail.send", max_retry=2)
def send(address: str) -> None:
    sent.append(address)
    if len(sent) == 1:
        raise ConnectionError("the mail server is away")


@tasks.task("mail.send_all")
def send_all(addresses: list[str]) -> None:
    send.many({"address": address} for address in addresses)


with recording() as jobs:
    send_all.using(delay=3600).enqueue(["a@example.org"])
    runs: list[Run] = drain(jobs)  # an hour passes at once, and so does the backoff
assert [(run.job["name"], run.state, run.attempts) for run in runs] == [
    ("mail.send_all", "succeeded", 1),
    ("mail.send", "succeeded", 2),
]
assert sent == ["a@example.org", "a@example.org"]
