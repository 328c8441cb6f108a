"""A console for other machines: its certificate, its provider of identities, and people who log in."""

import json
import secrets
import socket
import ssl
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx2
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from console.console_world import Answered, Browser, fork_worker
from console.openid_provider import CLIENT, SECRET
from gate.driving import machine
from remit.console.pairing import ConsoleState, write_state
from remit.console.server import ConsoleServer
from remit.core.machine_paths import CONFIG_PATH

HOSTS = ("localhost", "remit.test")
KEPT_SHORTLY = httpx2.Limits(keepalive_expiry=1.0)  # the server closes an idle connection after five seconds
OPEN_CLIENTS: list[httpx2.Client] = []
"""Clients of the visitors of a console: they end with it."""


def find_free_port() -> int:
    """Return a free port below those that the system gives by itself: nobody takes it between this and its use."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port


def give_port(home: Path) -> None:
    """Give the console of this home a port of its own: the usual one is any console's once its daemon has ended."""
    write_state(home, ConsoleState("test", find_free_port()))


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Make a self-signed certificate for the hosts of the tests; return its file and its key's."""
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Remit's tests")])
    names = [*map(x509.DNSName, HOSTS), x509.IPAddress(ip_address("127.0.0.1"))]
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=1))
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    certificate, secret = folder / "cert.pem", folder / "key.pem"
    certificate.write_bytes(builder.sign(key, SHA256()).public_bytes(Encoding.PEM))
    secret.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return certificate, secret


class ProviderProcess:
    """The provider of identities, as a process of its own."""

    def __init__(self) -> None:
        program = Path(__file__).with_name("openid_provider.py")
        self.process = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def set_mischief(self, **mischief: Any) -> None:
        httpx2.post(f"{self.issuer}/mischief", json=mischief, timeout=60).raise_for_status()

    def list_asked(self) -> list[dict[str, str]]:
        return httpx2.get(f"{self.issuer}/asked", timeout=60).json()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def write_settings(home: Path, text: str) -> None:
    path = home / CONFIG_PATH
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)


def settings_of(provider: ProviderProcess, home: Path, host: str = "localhost", more: str = "") -> str:
    """Return settings with TLS of one's own at a free port; the files are made."""
    port = find_free_port()
    make_certificate(home / ".config/remit")
    (home / ".config/remit/secret").write_text(f"{SECRET}\n")
    return (
        f'[console]\norigin = "https://{host}:{port}"\nlisten = "127.0.0.1:{port}"\n'
        f'cert = "cert.pem"\nkey = "~/.config/remit/key.pem"\n'
        f'issuer = "{provider.issuer}"\nclient_id = "{CLIENT}"\nclient_secret_file = "secret"\n{more}'
    )


@contextmanager
def serving_remote(home: Path) -> Generator[ConsoleServer]:
    server = ConsoleServer(lambda: machine(home), 0)
    server.console.repositories.workers.start = fork_worker
    server.start()
    try:
        yield server
    finally:
        while OPEN_CLIENTS:
            OPEN_CLIENTS.pop().close()
        server.stop()


class RemoteVisitor(Browser):
    """A browser on another machine: it logs in at the provider, and signs as the console's pages do."""

    def __init__(self, server: ConsoleServer, home: Path) -> None:
        super().__init__(server)
        assert server.remote_settings is not None
        self.origin = server.remote_settings.origin
        trusted = ssl.create_default_context(cafile=home / ".config/remit/cert.pem")
        self.client = httpx2.Client(verify=trusted, timeout=90, trust_env=False, limits=KEPT_SHORTLY)
        OPEN_CLIENTS.append(self.client)

    @property
    def host(self) -> str:
        return self.origin.removeprefix("https://")

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answered:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        response = self.client.request(method, f"{self.origin}{path}", content=body or None, headers=sent)
        return Answered(response.status_code, dict(response.headers), response.content)

    def begin_login(self) -> str:
        """Return the provider's address to which the console sends this browser."""
        found = self.get("/login", Sec_Fetch_Site="same-origin")
        assert found.status == 302, found.text
        return found.headers["location"]

    def choose_person(self, address: str, person: str) -> str:
        """Log in at the provider; return the address with its answer, below the console's origin."""
        answer = httpx2.post(address, data={"person": person}, timeout=60)
        assert answer.status_code == 302, answer.text
        return answer.headers["location"].removeprefix(self.origin)

    def log_in(self, person: str) -> Answered:
        """Log in; return the answer of the console to the provider's answer. The browser's key is registered."""
        found = self.bring(self.choose_person(self.begin_login(), person))
        if found.status == 200:
            self.register_key()
        return found

    def bring(self, answer: str) -> Answered:
        """Come back from the provider, as a browser that its page led here."""
        led = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
        return self.get(answer, **led)

    def register_key(self) -> Answered:
        body = json.dumps({"public_key": self.public_key, "name": "test"}).encode()
        found = self.ask("POST", "/login/key", body, Origin=self.origin)
        if found.status == 200:
            self.id = found.data["id"]
        return found

    def post(self, path: str, data: object, *, proof: str | None = None, **headers: str) -> Answered:
        return super().post(path, data, proof=proof, **({"Origin": self.origin} | headers))
