"""The web UI in a real Chromium on a real master with a real worker. One browser and one system for the
whole session: its tests have `pytest.mark.asyncio(loop_scope="session")`."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright, expect

from tests.support.master import Api, master_on
from tests.support.server import StoreServer, started
from worker_sdk import Context, Worker

# Effects come at once, unless other tests keep the machine busy.
expect.set_options(timeout=20_000)

# Without a window, a page takes less than half of the processor time.
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium") or "/usr/bin/chromium"
# With this argument, jobs named `ui.fail` fail at another place than usual.
ELSEWHERE = "elsewhere"
# This text exposes anything that would run, load or open something.
HOSTILE = (
    "<img src=x onerror=alert(1)><script>alert(2)</script>\u202egnp.exe\x1b[31m\u0000 javascript:alert(3)"
)


@dataclass(frozen=True, slots=True)
class Screens:
    """Opens pages of one master."""

    browser: Browser
    url: str

    @contextlib.asynccontextmanager
    async def open(
        self,
        address: str = "",
        *,
        is_dark: bool = False,
        width: int = 1280,
        locale: str = "en-US",
        timezone: str = "UTC",
        is_fault: Callable[[str], bool] = bool,
    ) -> AsyncIterator[Page]:
        """Yield a page in its own context at `address`, such as `#/jobs`. At the end, assert that there was no policy
        violation, script error or browser dialog. `is_fault` excuses faults that a test causes."""
        context = await self.browser.new_context(
            base_url=self.url,
            viewport={"width": width, "height": 900},
            color_scheme="dark" if is_dark else "light",
            locale=locale,
            timezone_id=timezone,
            permissions=["clipboard-read", "clipboard-write"],
        )
        context.set_default_timeout(15_000)
        faults: list[str] = []

        def heard(message: ConsoleMessage) -> None:
            # The page itself reports the browser's messages about API answers.
            if message.type == "error" and not message.text.startswith("Failed to load resource"):
                faults.append(message.text)

        async def violated(_: Any, directive: str) -> None:
            faults.append(f"policy: {directive}")

        await context.expose_binding("__violated", violated)
        await context.add_init_script(
            "addEventListener('securitypolicyviolation', (e) => __violated(e.violatedDirective + ' ' + e.blockedURI))"
        )
        page = await context.new_page()
        page.on("console", heard)
        page.on("pageerror", lambda error: faults.append(str(error)))

        async def refuse(dialog: Any) -> None:
            faults.append(f"dialog: {dialog.message}")
            await dialog.dismiss()

        page.on("dialog", refuse)
        try:
            await page.goto(f"/{address}")
            yield page
            # The page's requests are not needed any more.
            await page.unroute_all(behavior="ignoreErrors")
            assert [fault for fault in faults if is_fault(fault)] == []
        finally:
            await context.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    if not Path(CHROMIUM).exists():
        pytest.skip("Chromium is not installed")
    async with async_playwright() as playwright:
        one = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield one
        await one.close()


@pytest.fixture(scope="session")
def store_server() -> Iterator[StoreServer]:
    """Start a server for these tests alone: with their thousands of jobs, tests that read all keys of a server would
    take ten times as long."""
    server = StoreServer()
    with started(server):
        yield server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def api(store_server: StoreServer) -> AsyncIterator[Api]:
    """Yield the client of a leading master with a worker that has the handlers of `worker_on`."""
    async with master_on(store_server.url) as (master, client), worker_on(master.server.url).running():
        yield client


@pytest.fixture
def screens(browser: Browser, api: Api) -> Screens:
    """Open pages of the session's master."""
    return Screens(browser, str(api.http.base_url))


def worker_on(url: str, token: str | None = None, **more: Any) -> Worker:
    """Yield a worker of the master at `url` with the handlers of the tests."""
    worker = Worker(master=url, max_jobs=4, port=0, token=token, **more)

    @worker.handler("ui.echo")
    async def echo(argument: Any) -> Any:
        return argument

    @worker.handler("ui.fail")
    async def fail(argument: str) -> None:
        if argument == ELSEWHERE:
            raise LookupError(argument)
        raise ValueError(argument)

    @worker.handler("ui.nap")
    async def nap(argument: float) -> None:
        await asyncio.sleep(argument)

    @worker.handler("ui.walk")
    async def walk(argument: int, ctx: Context) -> None:
        await ctx.step("open the file", asyncio.sleep, 0.1)
        for row in range(argument):
            ctx.progress((row + 1) / argument, f"row {row + 1}")
            await asyncio.sleep(0.5)

    return worker
