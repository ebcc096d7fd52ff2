"""Names of the jobs that run Django's tasks."""

from worker_sdk.django.tasks_api import DEFAULT_TASK_QUEUE_NAME


def job_name(module_path: str, queue_name: str) -> str:
    """Return the name of the jobs of a task. A queue other than the default queue becomes the first part of the
    name."""
    return module_path if queue_name == DEFAULT_TASK_QUEUE_NAME else f"{queue_name}/{module_path}"


def task_and_queue(name: str) -> tuple[str, str]:
    """Return the path of a task and its queue from the name of a job."""
    queue, slash, path = name.partition("/")
    return (path, queue) if slash else (name, DEFAULT_TASK_QUEUE_NAME)
