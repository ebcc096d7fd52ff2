import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.upgrade.former import extracted


@pytest.fixture(scope="session")
def release() -> Iterator[Path]:
    """Release 0.2.0 as its wheel installs it."""
    directory = extracted()
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
def last_release() -> Iterator[Path]:
    """Release 0.3.0, the one before the next."""
    directory = extracted("0.3.0")
    yield directory
    shutil.rmtree(directory)
