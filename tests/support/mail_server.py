"""A real in-process SMTP server that takes, refuses or delays mails as a test says."""

import asyncio
import contextlib
import email
import email.policy
import ssl
import warnings
from collections.abc import AsyncIterator
from email.message import EmailMessage
from typing import Any

import trustme
from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

from tests.support.waiting import wait_until


class MailServer:
    """`refused` addresses get 550, `busy` ones 451. While `hangs`, recipients get no reply. `users` maps names to
    passwords, and `logins` lists the users that logged in."""

    def __init__(self) -> None:
        self.mails: list[tuple[str, EmailMessage]] = []
        self.refused: set[str] = set()
        self.busy: set[str] = set()
        self.hangs = False
        self.users: dict[str, str] = {}
        self.logins: list[str] = []
        self.were_secure: list[bool] = []
        self.port = 0
        self.is_tls = False
        self._let_go = asyncio.Event()

    async def until(self, count: int) -> list[tuple[str, EmailMessage]]:
        """Return the mails, by address, once there are `count` of them."""
        await wait_until(lambda: len(self.mails) >= count, timeout_s=40, what=f"{count} mails")
        return self.mails

    # --- what the server asks

    async def handle_RCPT(
        self, server: Any, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        if self.hangs:
            await self._let_go.wait()
        if address in self.refused:
            return "550 no such user here"
        if address in self.busy:
            return "451 try again later"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        assert isinstance(message, EmailMessage)
        self.were_secure.append(self.is_tls or session.ssl is not None)
        self.mails += [(address, message) for address in envelope.rcpt_tos]
        return "250 taken"

    def authenticate(self, server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        user = data.login.decode()
        is_known = self.users.get(user) == data.password.decode()
        if is_known:
            self.logins.append(user)
        return AuthResult(success=is_known, handled=False)

    def let_go(self) -> None:
        self._let_go.set()


class Authority:
    """Certificates for this machine, and the file of their signer."""

    def __init__(self, folder: Any) -> None:
        authority = trustme.CA()
        self.cafile = str(folder / "mail_ca.pem")
        authority.cert_pem.write_to_path(self.cafile)
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert("localhost", "127.0.0.1").configure_cert(self.context)


@contextlib.asynccontextmanager
async def mail_server(
    *, authority: Authority | None = None, is_tls: bool = False, users: dict[str, str] | None = None
) -> AsyncIterator[MailServer]:
    """A server on this machine. With an `authority`, it offers STARTTLS, or TLS from the start (`is_tls`). With
    `users`, it takes mails only from them."""
    handler = MailServer()
    handler.users, handler.is_tls = users or {}, is_tls
    context = authority.context if authority else None
    protocols: list[SMTP] = []

    def protocol() -> SMTP:
        with warnings.catch_warnings():
            # The class does not support TLS from the start, and warns about logins without TLS.
            warnings.simplefilter("ignore", UserWarning)
            one = SMTP(
                handler,
                hostname="localhost",
                loop=asyncio.get_running_loop(),
                tls_context=None if is_tls else context,
                authenticator=handler.authenticate,
                auth_required=bool(users),
                auth_require_tls=not is_tls and context is not None,
            )
        protocols.append(one)
        return one

    server = await asyncio.get_running_loop().create_server(
        protocol, "127.0.0.1", 0, ssl=context if is_tls else None
    )
    handler.port = server.sockets[0].getsockname()[1]
    try:
        yield handler
    finally:
        handler.let_go()
        server.close()
        for one in protocols:
            for transport in (one.transport, one._original_transport):
                if isinstance(transport, asyncio.WriteTransport):
                    transport.abort()
        await server.wait_closed()
        await wait_until(
            lambda: all(one.transport is None or one.transport.is_closing() for one in protocols),
            what="no connection",
        )
