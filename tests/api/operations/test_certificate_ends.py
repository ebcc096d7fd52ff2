"""The ends of a master's certificates: in a metric, and told by doctor before it is too late."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme

from jqmaster.config import Settings
from jqmaster.net.certificate_ends import certificate_ends_s, ending_soon
from tests.support import real_time
from tests.support.cli import jqmaster
from tests.support.master import master_on
from tests.support.server import StoreServer

pytestmark = real_time.MASTER

CA = trustme.CA()


def issue(directory: Path, days: float) -> tuple[dict[str, Any], datetime]:
    """Return the settings of a certificate that ends in this many days, and its end."""
    end = (datetime.now(UTC) + timedelta(days=days)).replace(microsecond=0)
    issued = CA.issue_cert("127.0.0.1", not_after=end, not_before=end - timedelta(days=90))
    certfile, keyfile = directory / f"{days}.pem", directory / f"{days}-key.pem"
    certfile.write_bytes(b"".join(one.bytes() for one in issued.cert_chain_pems))
    keyfile.write_bytes(issued.private_key_pem.bytes())
    return {"tls_certfile": str(certfile), "tls_keyfile": str(keyfile)}, end


@pytest.mark.parametrize(
    ("days", "word"), [(20.0, None), (10.0, "ends on"), (-1.0, "expired on")], ids=["later", "soon", "over"]
)
def test_a_certificate_near_its_end_is_told(tmp_path: Path, days: float, word: str | None) -> None:
    files, end = issue(tmp_path, days)
    settings = Settings(**files)
    assert certificate_ends_s(settings) == {"tls_certfile": end.timestamp()}
    told = ending_soon(settings)
    assert bool(told) == (word is not None)
    assert all(f"(tls_certfile) {word} {end:%Y-%m-%d %H:%M} UTC" in text for text in told)


async def test_the_metric_and_doctor_name_the_end(store_server: StoreServer, tmp_path: Path) -> None:
    files, end = issue(tmp_path, 3.0)
    async with master_on(store_server.url, **files) as (master, _):
        context = httpx.create_ssl_context()
        CA.configure_trust(context)
        async with httpx.AsyncClient(base_url=master.server.url, verify=context, trust_env=False) as http:
            metrics = (await http.get("/metrics")).text
    (line,) = (
        one
        for one in metrics.splitlines()
        if one.startswith("jqmaster_certificate_expiry_timestamp_seconds{")
    )
    assert line.startswith('jqmaster_certificate_expiry_timestamp_seconds{setting="tls_certfile"}')
    assert float(line.split()[1]) == end.timestamp()
    variables: dict[str, Any] = {f"JQMASTER_{name.upper()}": file for name, file in files.items()}
    done = jqmaster("doctor", JQMASTER_REDIS_URL=store_server.url, **variables)
    assert "(tls_certfile) ends on" in done.out
