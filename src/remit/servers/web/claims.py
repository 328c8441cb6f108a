"""What the console asks of who decides: whether a request may write, and whether a browser is paired.

The console shows pages and has no say. It tells what a browser sent; the daemon, which holds the links, the nonces and
the word about processes, answers.
"""

from typing import Protocol, TypeAlias

from msgspec import Struct

from remit.servers.web.pairing import Role


class Ends(Struct, frozen=True):
    """Both ends of a browser's connection. `is_login` where people log in: the client may be another machine's."""

    client_host: str
    client_port: int
    server_host: str
    server_port: int
    is_login: bool = False


class WriteClaim(Struct, frozen=True, tag=True):
    """A request that writes what needs a role, with its proof."""

    ends: Ends
    method: str
    target: str
    body_sha256: str
    proof: str
    reader: str
    role: Role
    act: str  # of `Act`, which the door rules on


class PeerClaim(Struct, frozen=True, tag=True):
    """Something that only a person's process may do, without a proof yet."""

    ends: Ends
    act: str
    action: str


class PairClaim(Struct, frozen=True, tag=True):
    """A browser with the secret of a pairing link."""

    ends: Ends
    secret: str
    public_key: str
    name: str


class UnpairClaim(Struct, frozen=True, tag=True):
    """The end of a pairing or a login, after its own request was allowed to write."""

    browser: str


Claim: TypeAlias = WriteClaim | PeerClaim | PairClaim | UnpairClaim


class Verdict(Struct, frozen=True):
    """The answer; `status` is HTTP's. A paired browser gets an id and a cookie."""

    status: int = 200
    message: str = ""
    fix: str = ""
    browser: str = ""
    cookie: str = ""


class Decides(Protocol):
    """Who decides: the daemon, or in the same process what the daemon uses."""

    def decide(self, claim: Claim) -> Verdict: ...

    def wake_calls(self) -> None:
        """Let calls that wait for an answer look at once."""
        ...
