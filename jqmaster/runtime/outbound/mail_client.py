"""Send mails by SMTP. Calls return the outcome and do not raise, because a mail server that is away is an everyday
outcome."""

import asyncio
import ssl
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.utils import formatdate
from typing import TYPE_CHECKING, Final

from jqmaster.config import Settings
from jqmaster.domain.notices.delivery import DeliveryOutcome
from jqmaster.net.smtp_url import SmtpUrl
from jqmaster.runtime.outbound.webhook_client import CallEnd

if TYPE_CHECKING:
    import aiosmtplib

# The timeouts for each reply of the mail server, and for a whole mail.
REPLY_TIMEOUT_S: Final = 15.0
MAIL_TIMEOUT_S: Final = 45.0
_MAX_DETAIL: Final = 200
# Reply codes after which the same mail would fail again.
_FOR_GOOD: Final = range(500, 600)


@dataclass(frozen=True, slots=True)
class Mail:
    """One mail to one address. `message_id` stays the same in each repeat."""

    to: str = field(repr=False)
    subject: str
    text: str = field(repr=False)
    html: str = field(repr=False)
    message_id: str


class MailClient:
    """Sends each mail on a new connection, because notices are rare. The egress guard does not check the server,
    because only the settings name it."""

    def __init__(
        self,
        server: SmtpUrl,
        sender: str,
        *,
        cafile: str | None = None,
        reply_timeout_s: float = REPLY_TIMEOUT_S,
        mail_timeout_s: float = MAIL_TIMEOUT_S,
    ) -> None:
        self._server = server
        self._sender = sender
        self._cafile = cafile
        self._reply_timeout_s = reply_timeout_s
        self._mail_timeout_s = mail_timeout_s

    @property
    def host(self) -> str:
        """Return the host and port of the mail server."""
        return f"{self._server.host}:{self._server.port}"

    async def send(self, mail: Mail) -> CallEnd:
        """Send a mail once."""
        # Import aiosmtplib only here: it is slow to load, and most masters never send a mail.
        import aiosmtplib

        try:
            async with asyncio.timeout(self._mail_timeout_s):
                return await self._send(mail)
        except aiosmtplib.SMTPRecipientsRefused as exc:
            return _ended(exc.recipients[0].code, exc.recipients[0].message)
        except aiosmtplib.SMTPAuthenticationError as exc:
            # Report a failure that may pass. Somebody will correct the password, so the mail must not be lost.
            return CallEnd(DeliveryOutcome.FAILED, f"the mail server refuses the login ({exc.code})")
        except aiosmtplib.SMTPResponseException as exc:
            return _ended(exc.code, exc.message)
        except TimeoutError:
            return CallEnd(DeliveryOutcome.FAILED, "the mail server takes too long")
        except (aiosmtplib.SMTPException, OSError, ValueError) as exc:
            return CallEnd(DeliveryOutcome.FAILED, _shortened(f"the mail server cannot be used ({exc})"))

    async def _send(self, mail: Mail) -> CallEnd:
        import aiosmtplib

        server = self._server
        client = aiosmtplib.SMTP(
            hostname=server.host,
            port=server.port,
            use_tls=server.is_tls,
            # Let `_secure` start TLS: the library would continue without TLS if the server did not offer it.
            start_tls=False,
            tls_context=self._context() if server.is_tls else None,
            timeout=self._reply_timeout_s,
        )
        try:
            await client.connect()
            if not server.is_tls:
                await self._secure(client)
            if server.user is not None:
                await client.login(server.user, server.password)
            _, reply = await client.send_message(
                self._message(mail), sender=self._sender, recipients=[mail.to]
            )
        except BaseException:
            client.close()
            raise
        try:
            await client.quit()
        except (aiosmtplib.SMTPException, OSError):
            # best effort: the server has accepted the mail.
            client.close()
        return CallEnd(DeliveryOutcome.DELIVERED, _shortened(reply))

    async def _secure(self, client: "aiosmtplib.SMTP") -> None:
        """Start TLS if the server offers it. Before a password is sent, TLS is required."""
        await client.ehlo()
        if client.supports_extension("starttls") or self._server.user is not None:
            await client.starttls(tls_context=self._context())

    def _context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self._cafile)

    def _message(self, mail: Mail) -> EmailMessage:
        message = EmailMessage()
        message["From"] = self._sender
        message["To"] = mail.to
        message["Subject"] = mail.subject
        message["Date"] = formatdate()
        # Set the same ID in each repeat: mailboxes show only one of two mails with the same ID.
        message["Message-ID"] = f"<{mail.message_id}@{self._sender.partition('@')[2]}>"
        # This header prevents automatic replies.
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(mail.text)
        message.add_alternative(mail.html, subtype="html")
        return message


def mail_client(settings: Settings) -> MailClient | None:
    """Return the client for the configured mail server, or None if there is none."""
    if settings.smtp_url is None or settings.mail_from is None:
        return None
    cafile = str(settings.smtp_cafile) if settings.smtp_cafile else None
    return MailClient(SmtpUrl.parse(settings.smtp_url.get_secret_value()), settings.mail_from, cafile=cafile)


def _ended(code: int, reply: str) -> CallEnd:
    outcome = DeliveryOutcome.REFUSED if code in _FOR_GOOD else DeliveryOutcome.FAILED
    return CallEnd(outcome, _shortened(f"the mail server answered {code}: {reply}"))


def _shortened(text: str) -> str:
    printable = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(printable.split())[:_MAX_DETAIL]
