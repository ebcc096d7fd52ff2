"""Mails to a real server: in the clear, with TLS, with a login; and to a server that is down, slow or refuses."""

from pathlib import Path

import pytest

from jqmaster.domain.notices.delivery import DeliveryOutcome
from jqmaster.net.smtp_url import SmtpUrl
from jqmaster.runtime.outbound.mail_client import Mail, MailClient
from tests.support.mail_server import Authority, MailServer, mail_server
from tests.support.ports import free_port

pytestmark = pytest.mark.req("M5")

MAIL = Mail("ops@shop.example", "[jqmaster] 2 jobs failed – ü", "text\n.\nü", "<p>ü</p>", "0198c3f4")


def client_for(
    server: MailServer,
    *,
    scheme: str = "smtp",
    login: str = "",
    cafile: str | None = None,
    reply_s: float = 5.0,
) -> MailClient:
    url = SmtpUrl.parse(f"{scheme}://{login}127.0.0.1:{server.port}")
    return MailClient(url, "jq@shop.example", cafile=cafile, reply_timeout_s=reply_s)


async def test_a_mail_has_text_and_html_and_one_id() -> None:
    async with mail_server() as server:
        client = client_for(server)
        for _ in range(2):
            assert (await client.send(MAIL)).outcome is DeliveryOutcome.DELIVERED
        (address, first), (_, second) = server.mails
        assert address == first["To"] == "ops@shop.example"
        assert (first["From"], first["Subject"]) == ("jq@shop.example", MAIL.subject)
        assert first["Message-ID"] == second["Message-ID"] == "<0198c3f4@shop.example>"
        assert first["Auto-Submitted"] == "auto-generated"
        plain, html = first.get_body(("plain",)), first.get_body(("html",))
        assert plain is not None
        assert html is not None
        assert plain.get_content().replace("\r\n", "\n") == "text\n.\nü\n"
        assert html.get_content().strip() == "<p>ü</p>"


@pytest.mark.parametrize("scheme", ["smtp", "smtps"])
async def test_a_login_goes_by_tls_only(tmp_path: Path, scheme: str) -> None:
    authority = Authority(tmp_path)
    users = {"jq": "p@ss/word"}
    async with mail_server(authority=authority, is_tls=scheme == "smtps", users=users) as server:
        login = "jq:p%40ss%2Fword@"
        client = client_for(server, scheme=scheme, login=login, cafile=authority.cafile)
        assert (await client.send(MAIL)).outcome is DeliveryOutcome.DELIVERED
        assert server.logins == ["jq"]
        assert server.were_secure == [True]
        wrong = client_for(server, scheme=scheme, login="jq:wrong@", cafile=authority.cafile)
        end = await wrong.send(MAIL)
        assert (end.outcome, end.detail) == (
            DeliveryOutcome.FAILED,
            "the mail server refuses the login (535)",
        )
        assert server.logins == ["jq"]
    assert "word" not in repr(client._server)


async def test_a_server_that_cannot_prove_itself_gets_no_password(tmp_path: Path) -> None:
    async with mail_server(authority=Authority(tmp_path), users={"jq": "secret"}) as server:
        end = await client_for(server, login="jq:secret@").send(MAIL)
        assert end.outcome is DeliveryOutcome.FAILED
        assert "certificate" in end.detail.lower()
        assert server.logins == []


async def test_no_password_is_sent_in_the_clear() -> None:
    async with mail_server(users={"jq": "secret"}) as server:
        end = await client_for(server, login="jq:secret@").send(MAIL)
        assert end.outcome is DeliveryOutcome.FAILED
        assert server.logins == []


async def test_a_refused_address_is_for_good_and_a_busy_server_is_not() -> None:
    async with mail_server() as server:
        server.refused.add(MAIL.to)
        end = await client_for(server).send(MAIL)
        assert end.outcome is DeliveryOutcome.REFUSED
        assert end.detail == "the mail server answered 550: no such user here"
        server.refused.clear()
        server.busy.add(MAIL.to)
        end = await client_for(server).send(MAIL)
        assert end.outcome is DeliveryOutcome.FAILED
        assert end.detail == "the mail server answered 451: try again later"
        assert server.mails == []


async def test_a_server_that_is_away_or_slow_is_tried_again_later() -> None:
    away = MailClient(SmtpUrl.parse(f"smtp://127.0.0.1:{free_port()}"), "jq@shop.example")
    assert (await away.send(MAIL)).outcome is DeliveryOutcome.FAILED
    async with mail_server() as server:
        server.hangs = True
        end = await client_for(server, reply_s=0.2).send(MAIL)
        assert end.outcome is DeliveryOutcome.FAILED
        assert server.mails == []


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("smtp://mail.example", ("mail.example", 587, False, None, "")),
        ("smtps://mail.example", ("mail.example", 465, True, None, "")),
        ("smtp://a%40b:c%3Ad@mail.example:25/", ("mail.example", 25, False, "a@b", "c:d")),
    ],
)
def test_addresses_of_mail_servers(url: str, expected: tuple[object, ...]) -> None:
    found = SmtpUrl.parse(url)
    assert (found.host, found.port, found.is_tls, found.user, found.password) == expected


@pytest.mark.parametrize(
    "url",
    ["", "mail.example", "http://x", "smtp://", "smtp://u@x", "smtp://x:0", "smtp://x:99999", "smtp://x/y",
     "smtp://x?a=b"],
)  # fmt: skip
def test_bad_addresses_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="expected smtp://"):
        SmtpUrl.parse(url)
