"""`remit ledger proof`, `consistency` and `check-proof`: proofs for readers without the log."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import click
import msgspec

from remit.cli.completion import complete_records
from remit.cli.output import FINDINGS, INTEGRITY, Failure, command_options, emit, encode_json, governed_gate, open_gate
from remit.cli.records.lookup import choose_id, find_by_id
from remit.core.display_text import sanitise_line
from remit.core.formats.proofs import ConsistencyProof, InvalidProof, Proof, ProofCheck, check_proof, read_proof
from remit.core.record import KEY
from remit.core.tree_head import (
    InvalidTreeHead,
    SignedHead,
    TreeHead,
    parse_public_key,
    parse_signed_head,
    verify_signature,
)
from remit.gate.gate import Gate
from remit.gate.records.tree_heads import make_head, newest_head, trusted_keys
from remit.ledger.integrity.proofs import NoSuchRecord, TreePlace, find_tree_place, prove_consistency, prove_inclusion
from remit.ledger.integrity.tree_heads import read_stored_heads

MAX_PROOF_BYTES = 16 * 1024 * 1024


@click.command()
@click.argument("record", shell_complete=complete_records)
@command_options
def proof(record: str, repo: Path, as_json: bool) -> None:
    """Prove that RECORD, an id or its number in the log, is under a signed tree head. Prints one JSON document.

    The proof holds the record, and needs nothing else: `remit ledger check-proof` reads it anywhere. Of a record
    that was pruned only the hash is proved.
    """
    gate = governed_gate(repo)
    folder = gate.recorder.log.folder
    place = locate_record(gate, record)
    note = newest_head(folder)
    if note is None or parse_signed_head(note).head.size <= place.index:
        signed = make_head(gate.recorder, whole=True)
        note = signed.note if signed else ""
    emit_proof(prove_inclusion(folder, place, parse_signed_head(note).head, note), as_json)


def locate_record(gate: Gate, record: str) -> TreePlace:
    """Return the place of a record, given by id or number. Raises Failure."""
    if record.isdecimal() and len(record) < 12:
        seq = int(record)
    else:
        chains = {str(item["id"]): item["metadata"].get(KEY, {}).get("chain", {}) for item in find_by_id(gate, record)}
        own = {name: chain for name, chain in chains.items() if chain.get("log") == gate.recorder.log.name}
        seq = int(own[choose_id("record of this machine's log", record, own, "`remit log`")]["seq"])
    try:
        return find_tree_place(gate.recorder.log.folder, seq)
    except NoSuchRecord as error:
        raise Failure.from_error(error, "NOT_FOUND", target=str(seq)) from error


@click.command("consistency")
@click.argument("old", type=click.IntRange(0))
@click.argument("new", type=click.IntRange(0), required=False)
@command_options
def print_consistency_proof(old: int, new: int | None, repo: Path, as_json: bool) -> None:
    """Prove that the log under the tree head of NEW records, by default the newest, begins with that of OLD."""
    gate = governed_gate(repo)
    folder = gate.recorder.log.folder
    heads: dict[int, tuple[TreeHead, str]] = {}
    for stored in read_stored_heads(folder):
        with suppress(InvalidTreeHead):
            head = parse_signed_head(stored.note).head
            heads[head.size] = (head, stored.note)
    newest = new if new is not None else max(heads, default=0)
    missing = [size for size in (old, newest) if size not in heads]
    if missing or old > newest:
        sizes = ", ".join(map(str, sorted(heads)[-12:])) or "none yet: run `remit ledger head`"
        message = f"no tree head has {missing[0]} records" if missing else f"{old} is more than {newest}"
        raise Failure("NOT_FOUND", message, fix=f"heads are kept of {sizes}")
    emit_proof(prove_consistency(folder, heads[old], heads[newest]), as_json)


def emit_proof(made: Proof, as_json: bool) -> None:
    """Print a proof after checking it. Raises Failure if the log contradicts its head."""
    checked = check_proof(made)
    if checked.why:
        message = f"the log bears no proof: {checked.why}"
        raise Failure("INTEGRITY", message, fix="see `remit ledger verify`", exit_code=INTEGRITY)
    emit(made, as_json, encode_json(made))


@click.command("check-proof")
@click.argument("file", type=click.File("rb"))
@click.option("--key", "keys", multiple=True, help="A key to trust, as `remit ledger key` prints it.")
@command_options
def check(file: BinaryIO, keys: Sequence[str], repo: Path, as_json: bool) -> None:
    """Check a proof in FILE (- for standard input), without a log or a network. Exit 5 where it is false.

    Exit 1 where its hashes hold, and its signature is by a key that is not trusted here: those of --key, or this
    machine's and `trusted_keys`.
    """
    made = parse_proof(file.read(MAX_PROOF_BYTES + 1))
    checked = check_proof(made)
    why, trusted = judge_signatures(checked, [parse_public_key(key) for key in keys] or known_keys(repo))
    data = {
        "kind": checked.kind,
        "holds": not why,
        "trusted": trusted,
        "why": why,
        "log": made.log,
        "size": made.size,
    }
    signer = "a trusted key" if trusted else "a key that is not trusted here"
    emit(data, as_json, why or f"{describe_proof(made)}\nsigned by {signer}")
    if why:
        raise SystemExit(INTEGRITY)
    if not trusted:
        raise SystemExit(FINDINGS)


def parse_proof(raw: bytes) -> Proof:
    """Return the proof in a file, bare or as printed by `--json`. Raises InvalidProof."""
    if len(raw) > MAX_PROOF_BYTES:
        raise InvalidProof(f"it is longer than {MAX_PROOF_BYTES} bytes")
    try:
        document = msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidProof(f"it is no JSON: {error}") from error
    return read_proof(document.get("data", document))


def known_keys(repo: Path) -> list[bytes]:
    """Return the keys trusted in this repository; none in an ungoverned folder."""
    try:
        gate = open_gate(repo)
    except Failure:
        return []
    return list(trusted_keys(gate.environment.home, gate.rules.config)) if gate.is_governed else []


def judge_signatures(checked: ProofCheck, keys: Sequence[bytes]) -> tuple[str, bool]:
    """Return the reason why the proof is false, and whether trusted keys signed each head."""
    verdicts = [verify_head_signature(head, keys) for head in checked.heads]
    if checked.why:
        return checked.why, False
    if False in verdicts:
        return "a head bears a trusted key's name, and its signature is false", False
    return "", all(verdicts)


def verify_head_signature(head: SignedHead, keys: Sequence[bytes]) -> bool | None:
    """Return True if a key signed the head, False for a false signature, None if no key is named."""
    verdicts = {verify_signature(head, key) for key in keys}
    return False if False in verdicts else True if True in verdicts else None


def describe_proof(made: Proof) -> str:
    log = sanitise_line(made.log)
    if isinstance(made, ConsistencyProof):
        return f"the {made.size} records of {log} begin with the {made.old_size} that were signed before"
    subject = "this record" if made.record is not None else "a pruned record with this hash"
    return f"{subject} is number {made.index} of the {made.size} records of {log}"
