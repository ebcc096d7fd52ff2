"""Failed logins of others lock nobody out and cost the master little."""

import asyncio
import contextlib
import threading

import pytest
from argon2 import PasswordHasher

from jqmaster.errors import RateLimitedError
from jqmaster.service.identity import devices, passwords
from jqmaster.service.identity.passwords import Passwords
from tests.api.identity.test_sessions import ADMIN_TOKEN, Browser, add_user, browsers, guarded
from tests.support import real_time
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = real_time.MASTER


@pytest.fixture
def real_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords cost as much here as in production."""
    monkeypatch.setattr(passwords, "PasswordHasher", PasswordHasher)


@pytest.mark.rule("E1.4")
async def test_a_hash_costs_a_guesser_64_mib_and_three_passes(real_passwords: None) -> None:
    one = Passwords()
    assert (await one.hash("seven plums in a hat")).startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    await one.stop()


WRONG = {"user": "ada", "password": "a wrong password"}


async def fail_until_refused(browser: Browser, **headers: str) -> None:
    for _ in range(100):
        if await browser.status_of("POST", "/api/session", WRONG, **headers) == 429:
            return
    raise AssertionError("nobody refused it")


@pytest.mark.rule("E1.4")
@pytest.mark.row(117)
async def test_a_user_logs_in_on_a_known_device_whatever_others_fail(store_server: StoreServer) -> None:
    async with guarded(store_server.url) as (master, admin), browsers(master, 3) as (ada, eve, new):
        await add_user(admin, "ada")
        await ada.log_in("ada")
        await ada.status_of("DELETE", "/api/session")
        await fail_until_refused(eve)
        assert await new.status_of("POST", "/api/session", WRONG) == 429, "as eve, it is no known device"
        await ada.log_in("ada")
        # Nobody gets more guesses from there than from elsewhere.
        await fail_until_refused(ada)


@pytest.mark.rule("E1.4")
async def test_a_device_is_known_for_its_user_and_until_the_password_changes(
    store_server: StoreServer,
) -> None:
    proof = devices.make("ada", "hash")
    assert devices.is_known(proof, "ada", "hash")
    for other in (proof[:-1] + "x", "", "x", proof + "\n", None):
        assert not devices.is_known(other, "ada", "hash")
    assert not devices.is_known(proof, "bob", "hash")
    assert not devices.is_known(proof, "ada", "another hash")
    # The cookie opens nothing.
    async with guarded(store_server.url) as (master, admin), browsers(master) as (ada,):
        await add_user(admin, "ada")
        await ada.log_in("ada")
        ada.http.cookies.delete("jqmaster_session")
        assert set(ada.http.cookies) == {"jqmaster_device"}
        assert await ada.status_of("GET", "/api/jobs") == 401


async def test_a_valid_token_logs_in_whatever_others_fail(store_server: StoreServer) -> None:
    async with guarded(store_server.url) as (master, _), browsers(master) as (browser,):
        wrong = {"token": "wrong"}
        statuses = [await browser.status_of("POST", "/api/session", wrong) for _ in range(70)]
        assert statuses[0] == 401
        assert 429 in statuses
        assert await browser.status_of("POST", "/api/session", {"token": ADMIN_TOKEN}) == 201


@pytest.mark.rule("E1.4")
async def test_behind_a_trusted_proxy_each_caller_is_counted_alone(store_server: StoreServer) -> None:
    async with (
        guarded(store_server.url, trusted_proxies=["127.0.0.0/8"]) as (master, admin),
        browsers(master, 2) as (eve, bob),
    ):
        await add_user(admin, "bob")
        for n in range(30):
            body = {"user": f"somebody{n}", "password": "wrong"}
            path = "/api/session"
            await eve.status_of("POST", path, body, **{"X-Forwarded-For": f"10.9.9.{n}, 2001:db8::{n + 1}"})
        await fail_until_refused(eve, **{"X-Forwarded-For": "2001:db8::ffff"})
        right = {"user": "bob", "password": "correct horse battery"}
        assert await bob.status_of("POST", "/api/session", right, **{"X-Forwarded-For": "192.0.2.1"}) == 201


class Held(Passwords):
    """Password checks that block until they are released."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def _check(self, hashed: str | None, password: str) -> bool:
        self.go.wait(10)
        return False


@pytest.mark.rule("E1.4")
async def test_logins_refused_for_want_of_room_count_as_no_failure(store_server: StoreServer) -> None:
    async with guarded(store_server.url) as (master, admin), browsers(master) as (browser,):
        await add_user(admin, "ada")
        held, real = Held(), master.identity.logins._passwords
        master.identity.logins._passwords = held
        calls = [
            asyncio.create_task(browser.status_of("POST", "/api/session", WRONG))
            for _ in range(passwords.MAX_WAITING_OF_CALLER)
        ]
        await wait_until(lambda: held._waiting.total() == len(calls), what="they wait")
        for _ in range(50):
            assert await browser.status_of("POST", "/api/session", WRONG) == 429
        held.go.set()
        assert await asyncio.gather(*calls) == [401] * len(calls)
        await held.stop()
        master.identity.logins._passwords = real
        await browser.log_in("ada")


async def test_one_caller_leaves_room_for_others_and_all_of_them_for_known_devices() -> None:
    waiting = Passwords()
    with contextlib.ExitStack() as stack:
        for _ in range(passwords.MAX_WAITING_OF_CALLER):
            stack.enter_context(waiting.place("eve"))
        with pytest.raises(RateLimitedError):
            stack.enter_context(waiting.place("eve"))
        with contextlib.suppress(RateLimitedError):
            for n in range(1000):
                stack.enter_context(waiting.place(f"caller {n}"))
        stack.enter_context(waiting.place("eve", is_trusted=True))
    assert waiting._waiting.total() == 0
    await waiting.stop()
