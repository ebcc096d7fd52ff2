"""The web UI's files: a fixed table at `/`, open to everybody, under a policy that runs no foreign code."""

import base64
import gzip
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from jqmaster.api.http.endpoint import not_found
from jqmaster.api.http.static import HEADERS, Site, sources_digest
from tests.support import real_time
from tests.support.master import Api, app_alone, master_on
from tests.support.server import StoreServer

pytestmark = real_time.MASTER

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
SCRIPT = "export const x = 1;\n" * 200


def client(app: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app, client=("192.0.2.7", 5000)), base_url="http://anywhere.example"
    )


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    root = tmp_path / "web"
    (root / "jobs" / "pages").mkdir(parents=True)
    (root / "index.html").write_text("<!doctype html>")
    (root / "jobs" / "pages" / "jobs.js").write_text(SCRIPT)
    (root / "types.d.ts").write_text("declare const no: string;")
    (tmp_path / "secret.js").write_text("no")
    async with client(Site(not_found, root)) as http:
        yield http


@pytest.mark.req("D21", "D18")
async def test_files_are_served_whole_with_the_policy_and_the_right_type(site: httpx.AsyncClient) -> None:
    index = await site.get("/")
    assert (index.status_code, index.text) == (200, "<!doctype html>")
    assert index.headers["content-type"] == "text/html; charset=utf-8"
    assert (await site.get("/index.html")).content == index.content
    script = await site.get("/jobs/pages/jobs.js")
    assert (script.text, script.headers["content-type"]) == (SCRIPT, "text/javascript; charset=utf-8")
    for answer in (index, script):
        assert answer.headers["content-security-policy"] == CSP
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert not [name for name in answer.headers if name.startswith("access-control-")]


async def test_a_file_that_the_client_has_is_not_sent_again(site: httpx.AsyncClient) -> None:
    first = await site.get("/jobs/pages/jobs.js")
    etag = first.headers["etag"]
    for held in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        again = await site.get("/jobs/pages/jobs.js", headers={"If-None-Match": held})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
        assert again.headers["content-security-policy"] == CSP
    changed = await site.get("/jobs/pages/jobs.js", headers={"If-None-Match": '"other"'})
    assert changed.status_code == 200


async def test_clients_that_take_gzip_get_it_under_a_tag_of_its_own(site: httpx.AsyncClient) -> None:
    packed = await site.get("/jobs/pages/jobs.js", headers={"Accept-Encoding": "br, gzip"})
    plain = await site.get("/jobs/pages/jobs.js", headers={"Accept-Encoding": "gzip;q=0, identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) == len(gzip.compress(SCRIPT.encode(), 9, mtime=0))
    assert "content-encoding" not in plain.headers
    assert packed.text == plain.text == SCRIPT
    assert packed.headers["etag"] != plain.headers["etag"]
    assert packed.headers["vary"] == plain.headers["vary"] == "accept-encoding"


async def test_the_bundle_is_served_as_long_as_it_was_made_of_the_sources(tmp_path: Path) -> None:
    root = tmp_path / "web"
    (root / "bundle").mkdir(parents=True)
    (root / "index.html").write_text("<!doctype html>modules")
    (root / "app.js").write_text(SCRIPT)
    (root / "bundle" / "index.html").write_text("<!doctype html><script>boot()</script>bundle")
    (root / "bundle" / "app.js").write_text("boot")
    sources = {f"/{name}": (root / name).read_bytes() for name in ("index.html", "app.js")}
    (root / "bundle" / "sources.sha256").write_text(f"{sources_digest(sources)}\n")
    async with client(Site(not_found, root)) as http:
        index = await http.get("/")
        assert index.text.endswith("bundle")
        assert (await http.get("/index.html")).text == index.text
        # The policy allows the script within the page by its hash, and no other inline script.
        digest = base64.b64encode(hashlib.sha256(b"boot()").digest()).decode()
        allowed = CSP.replace("script-src 'self'", f"script-src 'self' 'sha256-{digest}'")
        assert index.headers["content-security-policy"] == allowed
        assert (await http.get("/bundle/sources.sha256")).status_code == 404
        # Browsers keep a file whose address contains its hash, and revalidate any other.
        version = hashlib.sha256(b"boot").hexdigest()[:16]
        for query, kept in ((f"?v={version}", "immutable"), ("?v=other", "no-cache"), ("", "no-cache")):
            assert kept in (await http.get(f"/bundle/app.js{query}")).headers["cache-control"]
        assert "no-cache" in index.headers["cache-control"]
    (root / "app.js").write_text(SCRIPT + "// changed")
    async with client(Site(not_found, root)) as http:
        assert (await http.get("/")).text.endswith("modules")


@pytest.mark.row(17)
@pytest.mark.parametrize(
    "path",
    [
        "/../secret.js",
        "/jobs/pages/../../secret.js",
        "/%2e%2e/secret.js",
        "/jobs/pages/..%2f..%2fsecret.js",
        "/jobs/pages//jobs.js",
        "/pages",
        "/jobs/pages/",
        "/types.d.ts",
        "/jobs",
        "/index.html/",
        "/jobs/pages/jobs.js%00",
    ],
)
async def test_no_other_path_is_a_file(site: httpx.AsyncClient, path: str) -> None:
    answer = await site.get(path, headers={"Accept": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


async def test_a_page_that_is_typed_as_a_path_opens_in_the_ui(site: httpx.AsyncClient) -> None:
    found = await site.get("/jobs?state=failed", headers=BROWSER)
    assert (found.status_code, found.headers["location"]) == (302, "./#/jobs?state=failed")
    assert found.headers["content-security-policy"] == CSP
    assert (await site.head("/jobs", headers=BROWSER)).headers["location"] == "./#/jobs"


@pytest.mark.parametrize("path", ["/nothing", "/../secret", "/jobs/", "/jobs%00", "/api/nothing"])
async def test_a_browser_reads_why_there_is_no_such_page(site: httpx.AsyncClient, path: str) -> None:
    answer = await site.get(path, headers=BROWSER)
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert answer.json()["code"] == "not_found"


async def test_programs_are_not_led_to_the_ui(site: httpx.AsyncClient) -> None:
    for accept in ("*/*", "application/json"):
        assert (await site.get("/jobs", headers={"Accept": accept})).status_code == 404
    assert (await site.post("/jobs", headers=BROWSER)).status_code == 404


async def test_files_are_only_read(site: httpx.AsyncClient) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        refused = await site.request(method, "/jobs/pages/jobs.js", headers={"Accept": "application/json"})
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")
    head = await site.head("/jobs/pages/jobs.js")
    assert (head.status_code, head.content) == (200, b"")


async def test_the_ui_takes_no_path_of_the_api() -> None:
    async with client(app_alone("read:token")) as http:
        assert (await http.get("/api/jobs")).status_code == 401
        assert (await http.get("/api/nothing")).status_code == 404


@pytest.mark.row(22)
async def test_real_server_answers_ranges_and_heads_with_whole_files(store_server: StoreServer) -> None:
    async with master_on(store_server.url) as (master, api):
        app = Site(not_found)
        path = next(iter(app.paths))
        await _hold_against(api, path)
        assert master.server.url


async def _hold_against(api: Api, path: str) -> None:
    ranges = ",".join(f"{n}-{n}" for n in range(0, 3000, 2))
    whole = await api.http.get(path)
    part = await api.http.get(path, headers={"Range": f"bytes={ranges}"})
    assert (part.status_code, part.content) == (200, whole.content)
    head = await api.http.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"].isdigit()
    assert {name.decode() for name, _ in HEADERS} <= set(head.headers)
