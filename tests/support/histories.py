"""Settings of random histories: a handful in every suite, many in JQMASTER_HYPOTHESIS=nightly."""

import os
from typing import Final

from hypothesis import HealthCheck, Phase, settings

NIGHTLY: Final = os.environ.get("JQMASTER_HYPOTHESIS") == "nightly"


def history_settings(*, examples: int, nightly_examples: int = 1_000) -> settings:
    """Settings of a state machine on a real server. The suite walks the same histories each time, so that it tells
    of the change under test, and prints a failing one as it was found, for to make it shorter takes many minutes.
    New histories are what the nightly run is for."""
    return settings(
        max_examples=nightly_examples if NIGHTLY else examples,
        stateful_step_count=100 if NIGHTLY else 50,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
        derandomize=not NIGHTLY,
        phases=list(Phase) if NIGHTLY else [Phase.explicit, Phase.generate],
    )
