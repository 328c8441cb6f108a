"""Settings of remote access: the table `[console]` of `~/.config/remit/remit.toml`.

The file is the person's own. A repository has no say in who may reach this machine: its `remit.toml` is not read here.
"""

import os
from importlib.util import find_spec
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from msgspec import MsgspecError, Struct, toml

from remit.console.pairing import ROLES, Role
from remit.core.adoption import AdoptSettings
from remit.core.config import LOOPBACK_HOSTS
from remit.core.extras import describe_installation
from remit.core.machine_paths import CONFIG_FOLDER, CONFIG_PATH
from remit.core.python_runtime import prepare_type

EXTRA = ("authlib", "httpx2", "joserfc")  # packages of the extra `remote`
MAX_FILE_BYTES = 64 * 1024
MAX_SESSION_HOURS = 168.0
PROXIED_PORT = 7718
OPEN_TO_OTHERS = 0o022  # write permission of the group, or of everybody


class RemoteSetupRefused(Exception):
    """Settings with which the console cannot be opened to other machines. `fix` is the next step."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


class ListenAddress(NamedTuple):
    """An address to listen at."""

    host: str
    port: int


class RemoteSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Who may reach the console from other machines, at which address, and how they log in."""

    origin: str = ""
    issuer: str = ""
    client_id: str = ""
    client_secret_file: str | None = None
    cert: str | None = None
    key: str | None = None
    proxies: tuple[str, ...] = ()
    listen: str | None = None
    scopes: tuple[str, ...] = ("openid", "email", "profile")
    roles_claim: str = "roles"
    roles: dict[Role, tuple[str, ...]] = {}
    session_hours: float = 12.0

    @property
    def netloc(self) -> str:
        return urlsplit(self.origin).netloc

    @property
    def address(self) -> ListenAddress:
        """Return where to listen: with TLS of one's own everywhere, behind a proxy on this machine only."""
        if self.listen:
            parts = urlsplit(f"//{self.listen}")
            return ListenAddress(parts.hostname or "", parts.port or 0)
        if self.cert:
            return ListenAddress("0.0.0.0", urlsplit(self.origin).port or 443)  # noqa: S104  its settings name TLS
        return ListenAddress("127.0.0.1", PROXIED_PORT)

    def is_proxy(self, address: str) -> bool:
        """Return whether the address is of a proxy whose word on its clients counts."""
        found = parse_address(address)
        return found is not None and any(found in ip_network(each, strict=False) for each in self.proxies)

    def find_role(self, values: set[str]) -> Role | None:
        """Return the highest role that values of the claim give. Without a table, a value is the name of its role."""
        named = self.roles or {role: (role,) for role in ROLES}
        return next((role for role in reversed(ROLES) if values & {*named.get(role, ())}), None)


class PersonSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The file of the person's own settings."""

    console: RemoteSettings | None = None
    adopt: AdoptSettings = AdoptSettings()


def read_remote_settings(home: Path) -> RemoteSettings | None:
    """Return the settings of remote access; None where the person has set none. Raises RemoteSetupRefused."""
    path = home / CONFIG_PATH
    shown = f"~/{CONFIG_PATH}"
    try:
        status = path.stat()
        content = path.read_bytes() if status.st_size <= MAX_FILE_BYTES else b"[too.large]"
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RemoteSetupRefused(f"{shown} cannot be read: {error.strerror}", f"look at {shown}") from None
    if status.st_uid != os.getuid() or status.st_mode & OPEN_TO_OTHERS:
        raise RemoteSetupRefused(f"{shown} can be written by others", f"chmod go-w {shown}, and make it your own")
    try:
        settings = toml.decode(content, type=prepare_type(PersonSettings)).console
    except (MsgspecError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise RemoteSetupRefused(f"{shown}: {error}", "see `docs/reference/configuration.md`") from None
    if settings is not None:
        check_settings(settings, home)
    return settings


def check_settings(settings: RemoteSettings, home: Path) -> None:
    """Check that nobody reaches the console without encryption and a login. Raises RemoteSetupRefused."""
    where = f"[console] in ~/{CONFIG_PATH}"
    origin = split_address(settings.origin)
    if origin is None or origin.scheme != "https" or origin.path or origin.query or origin.fragment or origin.username:
        why = f"{where}: origin is {settings.origin!r:.200}; expected the address that browsers open"
        raise RemoteSetupRefused(why, 'name it, such as origin = "https://remit.example.org"')
    if settings.netloc != settings.netloc.lower() or settings.netloc.endswith(":443"):
        raise RemoteSetupRefused(
            f"{where}: origin is {settings.origin!r:.200}", "write it in small letters, without :443"
        )
    if bool(settings.cert) != bool(settings.key):
        raise RemoteSetupRefused(f"{where}: cert and key come together", "name both files")
    if not settings.cert and not settings.proxies:
        why = f"{where}: {settings.origin} without TLS: others could read and change what passes"
        raise RemoteSetupRefused(why, 'name `cert` and `key`, or the proxy that has them: proxies = ["127.0.0.1"]')
    for each in settings.proxies:
        try:
            names_all = ip_network(each, strict=False).prefixlen == 0
        except ValueError:
            raise RemoteSetupRefused(f"{where}: proxies: {each!r:.80} is no IP address", "name an address") from None
        if names_all:
            raise RemoteSetupRefused(f"{where}: proxies: {each} is everybody", "name the proxy's address")
    issuer = split_address(settings.issuer)
    if issuer is None or (issuer.scheme != "https" and issuer.hostname not in LOOPBACK_HOSTS) or not settings.client_id:
        why = f"{where}: without `issuer` and `client_id` nobody can log in, and nobody may come in without"
        raise RemoteSetupRefused(why, "register Remit with an OpenID Connect provider, and name both")
    try:
        is_listening = bool(settings.address.host and settings.address.port)
    except ValueError:
        is_listening = False
    if not is_listening:
        raise RemoteSetupRefused(f"{where}: listen is {settings.listen!r:.80}", 'write it as "0.0.0.0:8443"')
    if not 0 < settings.session_hours <= MAX_SESSION_HOURS:
        raise RemoteSetupRefused(
            f"{where}: session_hours is {settings.session_hours}", f"up to {MAX_SESSION_HOURS:.0f}"
        )
    if "openid" not in settings.scopes:
        raise RemoteSetupRefused(f'{where}: scopes without "openid" give no identity', 'add "openid"')
    if missing := [name for name in EXTRA if find_spec(name) is None]:
        raise RemoteSetupRefused(f"{missing[0]} is not installed, which {where} needs", describe_installation("remote"))
    for name in ("cert", "key", "client_secret_file"):
        file = getattr(settings, name)
        if file and not os.access(resolve_file(file, home), os.R_OK):
            raise RemoteSetupRefused(f"{where}: {name}: {file} cannot be read", "name a file that you can read")


def split_address(address: str) -> SplitResult | None:
    """Return the parts of an address of a web server; None if it is none."""
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return None
    return parts if parts.scheme in ("https", "http") and parts.hostname and address.isascii() else None


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """Return the address; None for other text. A zone (`%eth0`) may hold any text, and is taken for none."""
    try:
        found = ip_address(text)
    except ValueError:
        return None
    if "%" in text:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def resolve_file(name: str, home: Path) -> Path:
    """Return the path of a file; `~` is HOME, and a relative name lies beside the settings."""
    return home / name.removeprefix("~/") if name.startswith("~/") else (home / CONFIG_FOLDER / name)


def read_client_secret(settings: RemoteSettings, home: Path) -> str | None:
    if not settings.client_secret_file:
        return None
    return resolve_file(settings.client_secret_file, home).read_text("utf-8").strip()
