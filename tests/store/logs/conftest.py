"""Archives for tests."""

from collections.abc import Iterator

import pytest

from tests.support.s3_server import S3Server


@pytest.fixture(scope="session")
def one_s3_server() -> Iterator[S3Server]:
    with S3Server().serving() as server:
        yield server


@pytest.fixture
def s3(one_s3_server: S3Server) -> S3Server:
    """An empty bucket of a real server of the S3 kind."""
    one_s3_server.forget_all()
    return one_s3_server
