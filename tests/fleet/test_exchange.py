"""Patches between attempts: exact, merged with the recorded base, or refused by name; all files or none."""

import subprocess
from pathlib import Path
from random import Random

import msgspec
import pytest
from msgspec.structs import replace

from conftest import run_git
from gate.driving import Agent, allowed, governed, machine, records
from remit.core.call import SessionKey
from remit.gate.gate import Gate
from remit.tools.exchange import (
    ExchangedPatch,
    PatchRejected,
    apply_patch_to_workspace,
    check_patch,
    hash_patch,
    judge_patch,
    make_patch,
    merge_contents,
    read_patch,
)
from remit.workspace.git.command import Git

SESSION = SessionKey("receiver")
BASE = "".join(f"line {n}\n" for n in range(30))


@pytest.fixture
def gate(repository: Path, home: Path) -> Gate:
    """A repository in enforce, a patch to make in it, and a session under INT-001 that owns `src/**`."""
    governed(repository)
    (repository / "src" / "b.py").write_text(BASE)
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "base")
    opened = Gate.open(repository, machine(home))
    opened.intents.select(SESSION, "test", "INT-001")
    return opened


def proposal(gate: Gate, files: dict[str, str | None]) -> ExchangedPatch:
    """The patch of a branch that changes these files of the base."""
    root = gate.workspace.root
    run_git(root, "checkout", "-q", "-b", "proposal")
    for path, content in files.items():
        if content is None:
            (root / path).unlink()
        else:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(content)
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "proposal")
    run_git(root, "checkout", "-q", "main")
    patch = make_patch(gate, "main", "proposal", "INT-002", 3)
    run_git(root, "branch", "-q", "-D", "proposal")
    return read_patch(gate, msgspec.json.encode(patch))


def apply(gate: Gate, patch: ExchangedPatch) -> tuple[str, ...]:
    return apply_patch_to_workspace(gate, patch, SESSION, "remit", "call-1").merged


def refused(gate: Gate, patch: ExchangedPatch) -> PatchRejected:
    before = run_git(gate.workspace.root, "status", "--porcelain")
    with pytest.raises(PatchRejected) as raised:
        apply(gate, patch)
    assert run_git(gate.workspace.root, "status", "--porcelain") == before
    return raised.value


def test_a_patch_is_applied_exactly_and_recorded_for_the_receiving_session(gate: Gate) -> None:
    files = {"src/b.py": BASE.replace("line 3\n", "three\n"), "src/new.py": "new = 1\n", "src/app.py": None}
    patch = proposal(gate, files)
    assert (patch.intent_id, patch.attempt) == ("INT-002", 3)
    assert apply(gate, patch) == ()
    root = gate.workspace.root
    assert {path: (root / path).read_text() if (root / path).exists() else None for path in files} == files
    (record,) = records(root, "mutation")
    body = record["metadata"]["dev.remit"]
    assert (body["intent_id"], body["session_id"]) == ("INT-001", "receiver")
    links = [one for file in record["files"] for one in file["conversations"][0]["related"]]
    assert {(one["type"], one["value"]) for one in links} == {("specification", "INT-001"), ("patch", "INT-002/3")}
    assert {file["path"]: file["operation"] for file in body["files"]} == {
        "src/app.py": "delete", "src/b.py": "modify", "src/new.py": "create",
    }  # fmt: skip


def test_a_change_elsewhere_in_the_file_is_merged(gate: Gate) -> None:
    patch = proposal(gate, {"src/b.py": BASE.replace("line 3\n", "three\n")})
    (gate.workspace.root / "src" / "b.py").write_text(BASE.replace("line 20\n", "twenty\n"))
    assert apply(gate, patch) == ("src/b.py",)
    merged = BASE.replace("line 3\n", "three\n").replace("line 20\n", "twenty\n")
    assert (gate.workspace.root / "src" / "b.py").read_text() == merged


def test_a_change_of_the_same_lines_is_refused_with_who_made_it(gate: Gate, home: Path) -> None:
    patch = proposal(gate, {"src/b.py": BASE.replace("line 3\n", "three\n"), "src/new.py": "new\n"})
    other = Agent(gate.workspace.root, home, "other")
    other.select()
    assert allowed(other.write("src/b.py", BASE.replace("line 3\n", "distinctive_drei = compute()\n")))
    found = refused(gate, patch).rejection
    assert (found.path, found.reason, found.hunk) == ("src/b.py", "overlaps", 1)
    assert "distinctive_drei = compute()" in found.found.lines
    assert found.found.lines[0] == f"line {found.found.start - 1}"
    assert "line 3" in found.expected.lines
    assert [(one.intent_id, one.session_id) for one in found.changed_by if one.intent_id] == [("INT-001", "other")]
    assert msgspec.json.decode(msgspec.json.encode(found))["error_type"] == "PATCH_REJECTED"
    assert not (gate.workspace.root / "src" / "new.py").exists()


def test_each_reason_is_named(gate: Gate) -> None:
    root = gate.workspace.root
    patch = proposal(gate, {"src/b.py": BASE.replace("line 3\n", "three\n")})
    (file,) = patch.files

    def reason(changed: ExchangedPatch) -> str:
        return refused(gate, changed).rejection.reason

    assert file.base is not None
    unknown = replace(file, base=replace(file.base, sha256="0" * 64, git_blob="0" * 40))
    assert reason(replace(patch, files=(unknown,))) == "base_unknown"
    assert reason(replace(patch, files=(replace(file, base=None),))) == "base_unknown"
    untrue = replace(file, result=file.base)
    assert reason(replace(patch, files=(untrue,))) == "malformed"
    (root / "src" / "b.py").write_text(BASE.replace("line 3\n", "three\n"))
    assert reason(patch) == "already_applied"
    (root / "src" / "b.py").write_text(BASE.replace("line 3\n", "three\n").replace("line 25\n", "x\n"))
    assert reason(patch) == "already_applied"
    (root / "src" / "b.py").unlink()
    assert reason(patch) == "base_changed"
    run_git(root, "checkout", "-q", "src/b.py")
    for path in ("../outside", "/etc/passwd", "src/../../x", ".git/config", "src//b.py", "~/x", "a\0b"):
        assert reason(replace(patch, files=(replace(file, path=path),))) in ("protected", "refused"), path
    (root / "src" / "link").symlink_to("b.py")
    assert reason(replace(patch, files=(replace(file, path="src/link"),))) in ("protected", "malformed")


def test_what_a_session_does_not_own_is_refused_whole(gate: Gate) -> None:
    patch = proposal(gate, {"src/b.py": BASE + "more\n", "docs/x.md": "x\n"})
    with pytest.raises(PatchRejected) as raised:
        judge_patch(gate, patch, SESSION, "remit")
    assert raised.value.rejection.reason == "outside_scope"
    assert refused(gate, patch).rejection.reason == "outside_scope"
    assert refused(gate, proposal_of_governing(gate, patch)).rejection.reason == "protected"


def proposal_of_governing(gate: Gate, patch: ExchangedPatch) -> ExchangedPatch:
    new = next(file for file in patch.files if file.operation == "create")
    return replace(patch, files=(replace(new, path=".orchestration/hooks/x.py"),))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "malformed"),
        (b'{"schema": "remit.patch/2", "files": []}', "malformed"),
        (b'{"schema": "remit.patch/1", "files": []}', "malformed"),
        (b'{"schema": "remit.patch/1", "files": [], "run": "rm -rf /"}', "malformed"),
        (b'{"schema": "remit.patch/1", "files": [], "sha256": "00"}', "malformed"),
        (b"[" * 100_000, "malformed"),
        (b"hello", "malformed"),
        (b"{" + b" " * (9 << 20), "too_large"),
    ],
)
def test_what_is_no_patch_is_refused(gate: Gate, content: bytes, reason: str) -> None:
    with pytest.raises(PatchRejected) as raised:
        check_patch(gate, read_patch(gate, content))
    assert raised.value.rejection.reason == reason


def test_a_changed_patch_is_not_the_one_that_was_signed_off(gate: Gate) -> None:
    patch = proposal(gate, {"src/b.py": BASE + "more\n"})
    (file,) = patch.files
    forged = replace(patch, files=(replace(file, path="src/c.py"),))
    with pytest.raises(PatchRejected, match="hash names"):
        read_patch(gate, msgspec.json.encode(forged))
    assert hash_patch(replace(forged, sha256="")) != patch.sha256


def test_a_plain_diff_of_gits_is_applied_by_the_names_of_its_blobs(gate: Gate) -> None:
    root = gate.workspace.root
    (root / "src" / "b.py").write_text(BASE + "more\n")
    diff = subprocess.run(["git", "-C", str(root), "diff", "--full-index"], check=True, capture_output=True).stdout
    (root / "src" / "b.py").write_text("first\n" + BASE)
    assert apply(gate, read_patch(gate, diff)) == ("src/b.py",)
    assert (root / "src" / "b.py").read_text() == f"first\n{BASE}more\n"


def test_a_renamed_file_keeps_what_happened_since(gate: Gate) -> None:
    patch = proposal(gate, {"src/b.py": None, "src/c.py": BASE.replace("line 3\n", "three\n")})
    assert [file.operation for file in patch.files] == ["rename"]
    (gate.workspace.root / "src" / "b.py").write_text(BASE + "more\n")
    assert apply(gate, patch) == ("src/c.py",)
    assert not (gate.workspace.root / "src" / "b.py").exists()
    assert (gate.workspace.root / "src" / "c.py").read_text() == BASE.replace("line 3\n", "three\n") + "more\n"


def test_random_pairs_are_merged_right_or_refused(repository: Path) -> None:
    """Of two random small edits of one file, each keeps every line that either added, or is refused."""
    random = Random(4)
    git, applied, total = Git(repository), 0, 60
    for _ in range(total):
        base = [f"line {n}\n" for n in range(random.randrange(20, 80))]
        ours, theirs = (edit(base, random, side) for side in ("ours", "theirs"))
        merged = merge_contents(git, *("".join(text).encode() for text in (ours, base, theirs)))
        applied += merged is not None
        if merged is not None:
            lines = merged.decode().splitlines(keepends=True)
            assert [line for line in lines if "ours" in line] == [line for line in ours if "ours" in line]
            assert [line for line in lines if "theirs" in line] == [line for line in theirs if "theirs" in line]
    assert applied >= total // 2


def edit(base: list[str], random: Random, side: str) -> list[str]:
    lines = list(base)
    for number in range(random.randrange(1, 4)):
        at = random.randrange(len(lines))
        lines[at : at + random.randrange(3)] = [f"{side} {number} {k}\n" for k in range(random.randrange(3))]
    return lines
