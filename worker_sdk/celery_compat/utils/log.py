"""The part of `celery.utils.log` that tasks use."""

import logging


def get_task_logger(name: str) -> logging.Logger:
    """Return the logger of a module of tasks. Its lines also go into the log of the running job.

    * `name`: name of the module.
    """
    return logging.getLogger(name)
