# Shows: CommandOutput, CommandOptions
from worker_sdk import CommandOutput, Tasks
from worker_sdk.tasks.options import CommandOptions
from worker_sdk.testing import inline

tasks = Tasks()
PATIENT: CommandOptions = {"timeout": 60, "max_retry": 2, "keep_result": True}
say = tasks.command("text.say", ["echo", "{text}"], **PATIENT)


def last_line(output: CommandOutput) -> str:
    return output.stdout.splitlines()[-1] if output.exit_code == 0 else output.stderr


with inline():
    assert last_line(say.enqueue(text="hello; no shell sees this").get()) == "hello; no shell sees this"
