import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.upgrade.former import extracted


@pytest.fixture(scope="session")
def release() -> Iterator[Path]:
    """The former release as its wheel installs it."""
    directory = extracted()
    yield directory
    shutil.rmtree(directory)
