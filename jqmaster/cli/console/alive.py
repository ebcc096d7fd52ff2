"""`jqmaster healthcheck`: check whether the master or worker of a container is alive.

It imports only small parts of the standard library, because it runs every few seconds for the whole life of a
container."""

# Import as little as possible: even `typing` would take longer than the whole check.
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

ALIVE = 0
UNREACHABLE = 5
DEFAULT_TIMEOUT_S = 2.0
# A worker sends a heartbeat every second. If no master has answered a heartbeat for this long, the worker's
# leases have expired, too.
_FRESH_S = 30.0
_ANYWHERE = frozenset({"", "0.0.0.0", "::", "localhost"})  # noqa: S104 - a comparison
_DEFAULT_PORT = 8080


class NotAliveError(Exception):
    """The check failed; the text says why."""


class MalformedUrlError(NotAliveError):
    """The text to check is not an address."""


def quick_exit_code(arguments: list[str]) -> int | None:
    """Run the check for the arguments that containers use: none, or only `--ready`. Return its exit code.

    Return None for other arguments. The full command handles them."""
    if arguments not in ([], ["--ready"]):
        return None
    try:
        check(is_ready=bool(arguments))
    except NotAliveError as error:
        os.write(2, f"Error: {ascii(str(error))[1:-1]}\n".encode())
        return UNREACHABLE
    return ALIVE


def check(url: str | None = None, timeout_s: float = DEFAULT_TIMEOUT_S, *, is_ready: bool = False) -> None:
    """Raise NotAliveError if the check fails.

    The check examines `url` if it is given. If not, it examines the worker's file if the file exists. If not, it
    calls the master of the settings.

    `is_ready`: the master must also be ready for requests.
    """
    file = os.environ.get("JQMASTER_HEALTH_FILE")
    if url is None and file and (age_s := _age_s(file)) is not None:
        if age_s > _FRESH_S:
            raise NotAliveError(f"no master has answered a heartbeat of this worker for {age_s:.0f} s")
        return
    settings = _Settings()
    address = url or settings.address("readyz" if is_ready else "healthz")
    try:
        # A master that refuses a check without a certificate is alive, but it may not be ready.
        status = _get(address, timeout_s, settings, is_refusal_alive=url is None and not is_ready)
    except (OSError, ValueError) as error:
        raise NotAliveError(f"no answer from {address}: {error or type(error).__name__}") from None
    if status != 200:
        raise NotAliveError(f"{address} answered {status}")


def _age_s(file: str) -> float | None:
    try:
        return max(0.0, time.time() - os.stat(file).st_mtime)
    except OSError:
        return None


class _Settings:
    """The few settings that the check needs, from the environment or the configuration file. Only masters
    validate them."""

    def __init__(self) -> None:
        self._file: dict[str, object] | None = None

    def get(self, name: str) -> str | None:
        if text := os.environ.get(f"JQMASTER_{name.upper()}"):
            return text
        if self._file is None:
            self._file = _read_file()
        value = self._file.get(name)
        return None if value is None else str(value)

    def address(self, path: str) -> str:
        host = self.get("host") or ""
        host = "127.0.0.1" if host in _ANYWHERE else host
        scheme = "https" if self.get("tls_certfile") else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.get('port') or _DEFAULT_PORT}/{path}"


def _read_file() -> dict[str, object]:
    path = os.environ.get("JQMASTER_CONFIG")
    if not path:
        return {}
    import tomllib

    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except (OSError, ValueError) as error:
        raise NotAliveError(f"the settings cannot be read: {error}") from None


def _get(address: str, timeout_s: float, settings: _Settings, *, is_refusal_alive: bool) -> int:
    """Return the status of the answer.

    * `is_refusal_alive`: return 200 even if the master requires a client certificate. This check has none.
    """
    scheme, _, rest = address.partition("://")
    authority, slash, path = rest.partition("/")
    host, _, port = authority.rpartition(":")
    if not host or authority.endswith("]"):
        host, port = authority, "443" if scheme == "https" else "80"
    is_port = port.isascii() and port.isdigit() and int(port[:6]) < 65_536
    if scheme not in ("http", "https") or not host or not is_port or len(address.split()) != 1:
        raise MalformedUrlError(f"{address}: expected http://host:port/path")
    stream, shows_certificate = _connected(host.strip("[]"), int(port), timeout_s), True
    try:
        if scheme == "https":
            stream, shows_certificate = _encrypted(stream, settings)
        request = f"GET {slash or '/'}{path or 'healthz'} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n"
        try:
            stream.sendall(request.encode())
            line = b""
            while b"\r\n" not in line and (part := stream.recv(1024)):
                line += part
        except TimeoutError:
            raise
        except OSError:
            line = b""
            if shows_certificate:
                raise
        if not line and is_refusal_alive and not shows_certificate and settings.get("tls_client_cafile"):
            # The master completed its side of the handshake and then refused a client without a certificate, so it is
            # alive.
            return 200
        words = line.split(None, 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
            raise ValueError("the connection ended without an answer" if not line else "this is not HTTP")
        return int(words[1])
    finally:
        stream.close()


def _connected(host: str, port: int, timeout_s: float) -> "socket.socket":
    import socket

    is_address = ":" in host or host.replace(".", "").isdigit()
    if not is_address:
        return socket.create_connection((host, port), timeout_s)
    # Do not resolve the name. Resolving would import the codec for international names, even for an address.
    connection = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        connection.settimeout(timeout_s)
        connection.connect((host, port))
    except BaseException:
        connection.close()
        raise
    return connection


def _encrypted(connection: "socket.socket", settings: _Settings) -> "tuple[socket.socket, bool]":
    """Return the connection with TLS, and whether it presents a certificate."""
    import ssl

    # Do not verify the certificate: it names the host that clients use, but this call goes to the loopback address. The
    # call sends no secrets.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    shows_certificate = False
    for kind in ("client", "calls"):
        if not shows_certificate and (certificate := settings.get(f"{kind}_certfile")):
            context.load_cert_chain(certificate, settings.get(f"{kind}_keyfile"))
            shows_certificate = True
    return context.wrap_socket(connection), shows_certificate
