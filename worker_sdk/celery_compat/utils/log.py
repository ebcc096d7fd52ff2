"""`celery.utils.log`, as far as tasks use it."""

import logging


def get_task_logger(name: str) -> logging.Logger:
    """Return the logger of a module of tasks. What it writes while a job runs is kept in the log of the job, too.

    * `name`: name of the module.
    """
    return logging.getLogger(name)
