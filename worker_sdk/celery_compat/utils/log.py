"""The part of `celery.utils.log` that tasks use."""

import logging


def get_task_logger(name: str) -> logging.Logger:
    """Return the logger of a module of tasks. Its lines are kept in the log of the job that runs, too.

    * `name`: name of the module.
    """
    return logging.getLogger(name)
