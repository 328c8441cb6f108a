"""`remit.toml`: the shape of contracts §10. All of it is optional; an unknown key is an error, not a silence."""

from typing import Literal

from msgspec import Struct

from remit.core.decision import Mode


class Share(Struct, frozen=True, forbid_unknown_fields=True):
    """What leaves the machine."""

    notes: bool = False
    log: Literal["off", "ref", "tree"] = "off"


class Ledger(Struct, frozen=True, forbid_unknown_fields=True):
    """Witnesses of the ledger, and the keys that a team trusts."""

    witness: str | None = None
    trusted_keys: tuple[str, ...] = ()


class Session(Struct, frozen=True, forbid_unknown_fields=True):
    """Times that concern sessions."""

    idle_minutes: int = 30
    lease_s: int = 60
    detour_minutes: int = 10


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """The file. `mode` is None where it is not set: an intents file then means enforce, none means observe."""

    mode: Mode | None = None
    share: Share = Share()
    ledger: Ledger = Ledger()
    session: Session = Session()
