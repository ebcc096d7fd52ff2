"""Settings of random histories: a few in every suite, many with JQMASTER_HYPOTHESIS=nightly."""

import os
from typing import Final

from hypothesis import HealthCheck, Phase, settings

NIGHTLY: Final = os.environ.get("JQMASTER_HYPOTHESIS") == "nightly"


def history_settings(*, examples: int, nightly_examples: int = 1_000) -> settings:
    """Settings of a state machine on a real server. The suite walks the same histories each time, so that failures
    point to the change under test. It prints a failing history as found, because shrinking takes many minutes. The
    nightly run explores new histories."""
    return settings(
        max_examples=nightly_examples if NIGHTLY else examples,
        stateful_step_count=100 if NIGHTLY else 50,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
        derandomize=not NIGHTLY,
        phases=list(Phase) if NIGHTLY else [Phase.explicit, Phase.generate],
    )
