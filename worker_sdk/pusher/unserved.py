"""A warning, once per process and name, about job names that no worker has ever served."""

import logging
import re
from typing import Final

logger = logging.getLogger(__name__)

MAX_NAMES: Final = 1_000
_NAME: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,200}")
# The job names for which this process has logged a warning. Each task, thread and handler may have its own pusher, so
# all pushers share this set.
_warned: Final[set[str]] = set()


def warn_of_names(listed: str) -> None:
    """Log each name that was not logged before, up to `MAX_NAMES` in all.

    * `listed`: the header `JQ-Unserved-Names` of an answer. Other text in it is ignored.
    """
    for name in listed.split(","):
        name = name.strip()
        if name not in _warned and len(_warned) < MAX_NAMES and _NAME.fullmatch(name):
            _warned.add(name)
            logger.warning(
                "no worker has ever served the name %s: its jobs wait until a worker serves it. Is the name right?",
                name,
            )
