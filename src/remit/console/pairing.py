"""Browsers that may read and decide: paired by a single-use link, or by a person's login; and signatures of requests
that write.

A cookie alone only reads. Cookies of loopback do not know ports: every development server on the machine could be sent
one. A writing request carries a signature by a key made in the paired page. Scripts cannot export the key; a
program that reads the browser's profile can, and contained commands see none.
"""

import base64
import hashlib
import hmac
import os
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import DecodeError, Struct, ValidationError, field, json
from msgspec.structs import replace

from remit.core.machine_paths import STATE_FOLDER
from remit.core.python_runtime import prepare_type
from remit.core.record import Person
from remit.gate.state.database import StateDatabase
from remit.workspace.safe_files import write_atomically

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

STATE_FILE = f"{STATE_FOLDER}/console.json"
DEFAULT_PORT = 7717
LINK_LIFETIME_S = 60.0
COOKIE_LIFETIME_S = 30 * 24 * 3600
PROOF_WINDOW_S = 60.0  # how far the time of a signed request may be off; its nonce is remembered for twice as long
MAX_FAILED_PAIRINGS = 20
MAX_BROWSERS = 32
LOGINS_FILE = f"{STATE_FOLDER}/state.db"
KEY_WINDOW_S = 120.0  # time after a login within which its page brings the browser's key
MAX_LOGINS = 256
SIGNATURE_BYTES = 64  # ECDSA P-256 as WebCrypto gives it: r and s, 32 bytes each


class PairingRefused(Exception):
    """A refused pairing; the message names the reason and the next step."""


class ProofRefused(Exception):
    """A request that may not write. `status` is the HTTP status: 401 without a valid signature, 409 for a replay."""

    def __init__(self, message: str, status: int = 401) -> None:
        super().__init__(message)
        self.status = status


Role = Literal["view", "approve", "admin"]
ROLES: tuple[Role, ...] = ("view", "approve", "admin")
"""What people may do: read; also answer questions and comment; also change everything else."""


class PairedBrowser(Struct, frozen=True):
    """A paired browser. `public_key` is its P-256 key as DER (SubjectPublicKeyInfo) in base64."""

    id: str
    public_key: str
    cookie_sha256: str
    paired_at: float
    name: str = ""
    role: Role = "admin"
    person: Person | None = None


class ConsoleState(Struct, frozen=True):
    """The console's state between two runs: the address, and the paired browsers."""

    host_word: str
    port: int = DEFAULT_PORT
    browsers: list[PairedBrowser] = field(default_factory=list[PairedBrowser])
    is_served: bool = False  # whether a daemon that starts serves the console again

    @property
    def host_name(self) -> str:
        return f"remit-{self.host_word}.localhost"


def read_state(home: Path) -> ConsoleState:
    """Return the kept state; a new state, with a random host name, if the file is missing or unreadable."""
    try:
        return json.decode((home / STATE_FILE).read_bytes(), type=prepare_type(ConsoleState))
    except (OSError, DecodeError, ValidationError):
        return ConsoleState(secrets.token_hex(4))


def write_state(home: Path, state: ConsoleState) -> None:
    path = home / STATE_FILE
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomically(path, json.format(json.encode(state), indent=1) + b"\n", mode=0o600)


def forget_console(home: Path) -> None:
    """Let no daemon that starts serve the console again."""
    state = read_state(home)
    if state.is_served:
        write_state(home, replace(state, is_served=False))


def find_mark(home: Path) -> tuple[int, int, int] | None:
    """Return what changes with each state that is written; None without one."""
    try:
        found = (home / STATE_FILE).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


class Pairing:
    """The paired browsers of a user. Thread-safe."""

    def __init__(self, home: Path, clock: Callable[[], float]) -> None:
        self.home, self.clock = home, clock
        self.kept, self.mark = read_state(home), find_mark(home)
        self.lock = threading.Lock()
        self.open_links: dict[str, float] = {}
        """Expiry by the SHA-256 of a link's secret."""
        self.failures = 0
        self.used_nonces: dict[str, float] = {}

    @property
    def state(self) -> ConsoleState:
        """The state as it is kept: the console reads what the daemon writes."""
        mark = find_mark(self.home)
        if mark not in (self.mark, None):
            self.kept, self.mark = read_state(self.home), mark
        return self.kept

    def change_state(self, state: ConsoleState) -> None:
        write_state(self.home, state)
        self.kept, self.mark = state, find_mark(self.home)

    def keep_port(self, port: int) -> None:
        """Keep the port, and the name of the host with it, for the next time."""
        if self.state.port != port or self.mark is None:
            self.change_state(replace(self.state, port=port))

    # Pairing

    def make_link_secret(self) -> str:
        secret = secrets.token_urlsafe(24)
        with self.lock:
            self.failures = 0
            self.open_links[hash_secret(secret)] = self.clock() + LINK_LIFETIME_S
        return secret

    def pair(self, secret: str, public_key: str, name: str) -> tuple[PairedBrowser, str]:
        """Pair a browser; return the browser and the value of the cookie. Raises PairingRefused."""
        now = self.clock()
        with self.lock:
            if self.failures >= MAX_FAILED_PAIRINGS:
                raise PairingRefused("too many links were wrong: run `remit serve` for a new one")
            until = self.open_links.pop(hash_secret(secret), 0.0)
            if until < now:
                self.failures += 1
                raise PairingRefused("the link was used, or is older than a minute: run `remit serve` for a new one")
            load_public_key(public_key)
            cookie = secrets.token_urlsafe(32)
            browser = PairedBrowser(secrets.token_hex(8), public_key, hash_secret(cookie), now, name[:80])
            browsers = [*self.state.browsers, browser][-MAX_BROWSERS:]
            self.change_state(replace(self.state, browsers=browsers))
        return browser, cookie

    def unpair(self, browser_id: str) -> bool:
        with self.lock:
            left = [browser for browser in self.state.browsers if browser.id != browser_id]
            is_known = len(left) < len(self.state.browsers)
            if is_known:
                self.change_state(replace(self.state, browsers=left))
        return is_known

    # Requests

    def find_reader(self, cookie: str) -> PairedBrowser | None:
        """Return the browser with the cookie; None if unknown or too old."""
        digest, oldest = hash_secret(cookie), self.clock() - COOKIE_LIFETIME_S
        found = (b for b in self.state.browsers if hmac.compare_digest(b.cookie_sha256, digest))
        return next((browser for browser in found if browser.paired_at > oldest), None)

    def check_proof(self, proof: str, reader: PairedBrowser, method: str, target: str, body_sha256: str) -> None:
        """Check the `Remit-Proof` header of a request that writes. Raises ProofRefused."""
        parts = (part.strip().partition("=") for part in proof.split(","))
        fields = {name: value for name, _, value in parts}
        key, at, nonce, signature = (fields.get(name, "") for name in ("key", "t", "n", "sig"))
        if key != reader.id:
            raise ProofRefused("the request is not signed by the browser that reads here: pair it again")
        if not at.isdecimal() or abs(int(at) / 1000 - self.clock()) > PROOF_WINDOW_S:
            raise ProofRefused("the signature is too old: load the page again")
        signed = "\n".join((method, target, body_sha256, at, nonce)).encode()
        if not 16 <= len(nonce) <= 64 or not is_signed_by(reader.public_key, signature, signed):
            raise ProofRefused("the signature does not fit the request")
        with self.lock:
            now = self.clock()
            self.used_nonces = {n: until for n, until in self.used_nonces.items() if until > now}
            if nonce in self.used_nonces:
                raise ProofRefused("the request was sent before", 409)
            self.used_nonces[nonce] = now + 2 * PROOF_WINDOW_S


def make_link(pairing: Pairing, port: int) -> str:
    """Return the address that pairs one browser with the console at this port."""
    return f"http://{pairing.state.host_name}:{port}/pair#{pairing.make_link_secret()}"


# Logins


class Login(PairedBrowser, frozen=True):
    """A person's login from one browser on another machine: a paired browser with an account, and an end. `address` is
    the client's as the server or its proxy sees it.
    """

    address: str = ""
    until: float = 0.0


class Logins:
    """The logins of a user's console, kept in the user's state database. Thread-safe. Methods raise StateError."""

    def __init__(self, home: Path, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.lock = threading.Lock()
        self.database = StateDatabase(home / LOGINS_FILE, home)

    def begin(self, person: Person, role: Role, address: str, hours: float) -> tuple[Login, str]:
        """Store a login without a key; return the login and its cookie."""
        cookie, now = secrets.token_urlsafe(32), self.clock()
        login = Login(
            id=secrets.token_hex(8),
            public_key="",
            cookie_sha256=hash_secret(cookie),
            paired_at=now,
            role=role,
            person=person,
            address=address,
            until=now + hours * 3600,
        )
        with self.lock, self.database.transaction() as connection:
            connection.execute("DELETE FROM logins WHERE until<?", (now,))
            surplus = "SELECT cookie FROM logins ORDER BY until DESC LIMIT -1 OFFSET ?"
            connection.execute(f"DELETE FROM logins WHERE cookie IN ({surplus})", (MAX_LOGINS - 1,))
            row = (login.cookie_sha256, login.id, json.encode(login), login.until)
            connection.execute("INSERT INTO logins VALUES(?,?,?,?)", row)
        return login, cookie

    def find(self, cookie: str) -> Login | None:
        """Return the login with the cookie; None if there is none, or its time is over."""
        if not cookie:
            return None
        query = "SELECT body FROM logins WHERE cookie=? AND until>?"
        with self.lock:
            row = self.database.fetch_row(query, hash_secret(cookie), self.clock())
        return json.decode(row[0], type=prepare_type(Login)) if row else None

    def register_key(self, login: Login, public_key: str, name: str) -> Login:
        """Give a login the key of its browser, once. Raises PairingRefused."""
        if login.public_key or self.clock() - login.paired_at > KEY_WINDOW_S:
            raise PairingRefused("this login has a key already, or is older than two minutes")
        load_public_key(public_key)
        keyed = replace(login, public_key=public_key, name=name[:80])
        change = "UPDATE logins SET body=? WHERE cookie=? AND body=?"
        with self.lock:
            changed = self.database.execute(change, json.encode(keyed), login.cookie_sha256, json.encode(login))
        if not changed:
            raise PairingRefused("this login has a key already")
        return keyed

    def end(self, login_id: str) -> bool:
        with self.lock:
            return self.database.execute("DELETE FROM logins WHERE id=?", login_id) > 0

    def list_all(self) -> list[Login]:
        with self.lock:
            rows = self.database.fetch_rows("SELECT body FROM logins WHERE until>? ORDER BY until", self.clock())
        return [json.decode(row[0], type=prepare_type(Login)) for row in rows]

    def close(self) -> None:
        with self.lock:
            self.database.close()


# Secrets, keys, signatures


def hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def load_public_key(encoded: str) -> "EllipticCurvePublicKey":
    """Return the P-256 key. Raises PairingRefused for an invalid or different key."""
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    try:
        key = load_der_public_key(base64.b64decode(encoded, validate=True))
    except ValueError:
        raise PairingRefused("the browser sent no usable key") from None
    if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP256R1):
        raise PairingRefused("the browser sent a key of another kind")
    return key


def is_signed_by(public_key: str, signature: str, signed: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
    from cryptography.hazmat.primitives.hashes import SHA256

    try:
        raw = base64.urlsafe_b64decode(signature + "=" * (-len(signature) % 4))
        if len(raw) != SIGNATURE_BYTES:
            return False
        pair = (int.from_bytes(raw[: SIGNATURE_BYTES // 2]), int.from_bytes(raw[SIGNATURE_BYTES // 2 :]))
        load_public_key(public_key).verify(encode_dss_signature(*pair), signed, ECDSA(SHA256()))
    except (ValueError, InvalidSignature, PairingRefused):
        return False
    return True


def write_opening_page(home: Path, link: str) -> Path:
    """Write a private page leading to the link, and return the path: a link in argv is readable by every user."""
    path = home / STATE_FOLDER / f"open-{secrets.token_hex(8)}.html"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as page:
        page.write(f'<!doctype html><meta charset=utf-8><meta http-equiv=refresh content="0;url={link}">')
    return path
