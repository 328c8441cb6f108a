"""Signed tree heads of logs: a checkpoint in a signed note.

A note's text is three lines (origin, size, root in base64); a blank line and signatures follow, a line each:
`— <name> <base64 of key id and signature>`. The key id is the first four bytes of SHA-256 over name, newline, the byte
1 for Ed25519, and the public key.
Source: the C2SP specifications `tlog-checkpoint` and `signed-note`, read 2026-11.
"""

import base64
import hashlib
import re

from msgspec import Struct

ED25519 = b"\x01"
MAX_NOTE_CHARS = 16_384
_MAX_SIGNATURES = 100
_LINE = re.compile("\u2014 (?P<name>[^\\s+]+) (?P<blob>[A-Za-z0-9+/]+={0,2})")
_SIZE = re.compile(r"0|[1-9][0-9]{0,18}")
_HEX_KEY = re.compile(r"[0-9a-f]{64}")


class InvalidTreeHead(ValueError):
    """Error for text that is not a signed tree head."""

    def __init__(self, why: str) -> None:
        super().__init__(f"this is not a signed tree head: {why}")


class InvalidPublicKey(ValueError):
    """Error for text that is not a public key."""

    def __init__(self, text: str, why: str) -> None:
        super().__init__(f"{text[:200]!r} is not a public key: {why}; expected 64 hex digits, or `name+hash+base64`")


class TreeHead(Struct, frozen=True):
    """The signed data. `origin` is the log's name, `root` covers its first `size` lines."""

    origin: str
    size: int
    root: bytes


class Signature(Struct, frozen=True):
    """A signature line."""

    name: str
    key_id: bytes
    value: bytes


class SignedHead(Struct, frozen=True):
    """A tree head with unverified signatures. `text` is the signed text."""

    head: TreeHead
    text: str
    signatures: tuple[Signature, ...]


def format_checkpoint(head: TreeHead) -> str:
    """Return the signed text. Raises InvalidTreeHead for an origin that cannot be parsed back."""
    if not re.fullmatch(r"[^\s+]+", head.origin):
        raise InvalidTreeHead(f"the origin {head.origin!r} has a space or a plus, or is empty")
    return f"{head.origin}\n{head.size}\n{base64.b64encode(head.root).decode()}\n"


def compute_key_id(name: str, public: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + ED25519 + public).digest()[:4]


def derive_public_key(seed: bytes) -> bytes:
    # cryptography costs 40 ms to import; hook calls must not pay for it.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


def sign_head(head: TreeHead, seed: bytes) -> str:
    """Return the signed note under the log's own name. Raises ValueError unless `seed` has 32 bytes."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    text = format_checkpoint(head)
    key = Ed25519PrivateKey.from_private_bytes(seed)
    blob = compute_key_id(head.origin, key.public_key().public_bytes_raw()) + key.sign(text.encode())
    return f"{text}\n\u2014 {head.origin} {base64.b64encode(blob).decode()}\n"


def parse_signed_head(note: str) -> SignedHead:
    """Parse a signed note without verifying its signatures. Raises InvalidTreeHead."""
    if len(note) > MAX_NOTE_CHARS:
        raise InvalidTreeHead(f"it has {len(note)} characters; at most {MAX_NOTE_CHARS} are allowed")
    text, blank, signature_lines = note.rpartition("\n\n")
    lines = signature_lines.removesuffix("\n").split("\n")
    if not blank or not signature_lines.endswith("\n") or len(lines) > _MAX_SIGNATURES:
        raise InvalidTreeHead("a text, a blank line and at most a hundred signature lines were expected")
    origin, size, root_text = [*text.split("\n"), "", "", ""][:3]
    if not origin or not _SIZE.fullmatch(size) or text.count("\n") < 2:
        raise InvalidTreeHead("the first lines are not an origin, a size and a root")
    root = _decode_base64(root_text)
    if root is None or len(root) != hashlib.sha256().digest_size:
        raise InvalidTreeHead(f"the root {root_text[:100]!r} is not the base64 of 32 bytes")
    signatures: list[Signature] = []
    for line in lines:
        match = _LINE.fullmatch(line)
        blob = _decode_base64(match["blob"]) if match else None
        if match is None or blob is None or len(blob) < 5:
            raise InvalidTreeHead(f"{line[:100]!r} is not a signature line")
        signatures.append(Signature(match["name"], blob[:4], blob[4:]))
    return SignedHead(TreeHead(origin, int(size), root), text + "\n", tuple(signatures))


def _decode_base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None


def verify_signature(signed: SignedHead, public: bytes) -> bool | None:
    """Return whether the log's own name was signed with the key; None without such a signature.

    The first line naming the key decides, as in the reference implementation.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    origin = signed.head.origin
    identity = (origin, compute_key_id(origin, public))
    signature = next((s for s in signed.signatures if (s.name, s.key_id) == identity), None)
    if signature is None:
        return None
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature.value, signed.text.encode())
    except InvalidSignature:
        return False
    return True


def format_verifier_key(name: str, public: bytes) -> str:
    return f"{name}+{compute_key_id(name, public).hex()}+{base64.b64encode(ED25519 + public).decode()}"


def parse_public_key(text: str) -> bytes:
    """Return the 32 bytes of a key in 64 hex digits or as a verifier key. Raises InvalidPublicKey."""
    if _HEX_KEY.fullmatch(text):
        return bytes.fromhex(text)
    # Base64 may hold a plus itself, a name may not.
    name, _, key_parts = text.partition("+")
    hashed, _, encoded = key_parts.partition("+")
    blob = _decode_base64(encoded)
    if not name or blob is None or len(blob) != 33 or blob[:1] != ED25519:
        raise InvalidPublicKey(text, "it is neither")
    if compute_key_id(name, blob[1:]).hex() != hashed:
        raise InvalidPublicKey(text, "its hash does not fit")
    return blob[1:]
