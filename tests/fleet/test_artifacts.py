"""What an attempt leaves beside its commits is read on another host: bounded, without secrets, and never lost."""

import json
import os
from pathlib import Path

import pytest

from fleet.clones import Clone, make_clones
from forked_commands import run_in_bytes
from remit_fleet.artifacts import MAX_FILES, MAX_TEXT_BYTES, Artifacts, AttemptFacts, keep_artifacts
from remit_fleet.board import Attempt, AttemptEnd, AttemptState

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ"
KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF\nAASCBKcwggSjAgEA\n-----END PRIVATE KEY-----"


@pytest.fixture
def clones(tmp_path: Path, home: Path) -> tuple[Clone, Clone]:
    a, b, _ = make_clones(tmp_path, 2)
    return a, b


def keep(clone: Clone, output: str, files: dict[str, bytes] | None = None, number: int = 1) -> Path:
    """Keep what an attempt at INT-001 left; return the folder that its agent filled."""
    folder = clone.home.resolve() / f"given-{number}"
    folder.mkdir(exist_ok=True)
    for name, content in (files or {}).items():
        (folder / name).write_bytes(content)
    log = clone.home / f"{number}.log"
    log.write_text(output)
    attempt = Attempt("r", "INT-001", number, number, agent="small", state=AttemptState.ENDED, sessions=("s-1",))
    facts = AttemptFacts(attempt, "plan", host="far-away", why="it was lost")
    keep_artifacts(clone.gate, facts, log, folder, 0.0)
    return folder


def remit(clone: Clone, *words: str) -> str:
    done = run_in_bytes(words, clone.root, {**os.environ, "HOME": str(clone.home)})
    assert done.returncode == 0, done.stderr
    return (done.stdout + done.stderr).decode("utf-8", "surrogateescape")


def test_another_host_reads_what_an_attempt_left_without_its_secrets(clones: tuple[Clone, Clone]) -> None:
    a, b = clones
    given = {"page.png": PNG, "report.txt": f"token {TOKEN}\n".encode(), "junk.bin": b"a\0b", ".env": b"A=1"}
    keep(b, f"began\nexport TOKEN={TOKEN}\n{KEY}\nended\n", given)
    shown = remit(a, "task", "artifacts", "INT-001")
    assert "INT-001/1" in shown
    assert "small on far-away: None: it was lost; its transcript is there, session s-1" in shown
    assert "junk.bin (it is neither a text nor a picture" in shown
    assert ".env (only" in shown
    output = remit(a, "task", "artifacts", "INT-001", "output.log")
    report = remit(a, "task", "artifacts", "INT-001", "files/report.txt", "--attempt", "1")
    assert output.splitlines() == ["began", "export TOKEN=[redacted]", "[redacted]", "ended"]
    assert report.strip() == "token [redacted]"
    assert remit(a, "task", "artifacts", "INT-001", "files/page.png").encode("utf-8", "surrogateescape") == PNG
    listed = json.loads(remit(a, "task", "artifacts", "INT-001", "--json"))["data"]
    assert [file["name"] for file in listed["files"]] == [
        *("attempt.json", "files/page.png", "files/report.txt", "output.log"),
    ]


def test_a_link_of_the_agent_brings_no_file_of_the_host(clones: tuple[Clone, Clone]) -> None:
    _, b = clones
    secret = b.home / "id"
    secret.write_text("what the agent cannot read")
    folder = b.home.resolve() / "given-1"
    folder.mkdir()
    (folder / "one").symlink_to(secret)
    os.mkfifo(folder / "pipe")
    keep(b, "x")
    (folder / "one").unlink()
    (folder / "pipe").unlink()
    folder.rmdir()
    (b.home / "other").mkdir()
    (b.home / "other" / "two").write_text("what the agent cannot read")
    folder.symlink_to(b.home / "other")
    keep(b, "x")
    names = [file.name for file in Artifacts(b.gate).list_files("INT-001")]
    assert names == ["attempt.json", "output.log"]


def test_an_artefact_is_bounded_and_keeps_both_ends_of_its_output(clones: tuple[Clone, Clone]) -> None:
    _, b = clones
    given = {f"{n}.txt": b"x" * 10 for n in range(MAX_FILES + 5)}
    keep(b, "first\n" + "line of the output\n" * (2 * MAX_TEXT_BYTES // 18) + "last\n", given)
    known = Artifacts(b.gate)
    files = {file.name: file for file in known.list_files("INT-001")}
    assert len(files) == MAX_FILES + 2
    assert files["output.log"].size <= MAX_TEXT_BYTES + 100
    output = known.read_file(files["output.log"]).decode()
    assert (output[:6], output[-5:]) == ("first\n", "last\n")
    assert "\n[cut]\n" in output
    (facts,) = known.read_facts("INT-001")
    assert len(facts.left) == 6


def test_what_a_remote_that_was_away_did_not_get_goes_with_the_next(
    clones: tuple[Clone, Clone], tmp_path: Path
) -> None:
    a, b = clones
    away = (tmp_path / "far.git").rename(tmp_path / "away.git")
    keep(b, "one")
    shown = remit(b, "task", "artifacts", "INT-001")
    assert "only what is on this host" in shown
    assert "output.log" in shown
    away.rename(tmp_path / "far.git")
    assert "(not on the remote yet)" in remit(b, "task", "artifacts", "INT-001")
    keep(b, "two", number=2)
    a.remote.fetch_artifacts("INT-001")
    assert [facts.attempt.attempt for facts in Artifacts(a.gate).read_facts()] == [1, 2]


def test_what_somebody_else_put_under_such_a_ref_is_passed_over(clones: tuple[Clone, Clone]) -> None:
    a, b = clones
    keep(b, "one")
    known = Artifacts(a.gate)
    known.write("INT-001/2", {"attempt.json": b'{"attempt": 3}', "\x1b[2Jname": b"x"})
    other = AttemptFacts(Attempt("r", "INT-002", 9, 9, ended_as=AttemptEnd.FAILED))
    known.write("INT-001/3", {"attempt.json": json.dumps({"attempt": {"repository": "r"}}).encode()})
    known.write_attempt(other, b.home / "none", b.home / "none", "")
    shown = remit(a, "task", "artifacts", "INT-001")
    assert "\x1b" not in shown
    assert [facts.attempt.attempt for facts in known.read_facts("INT-001")] == [1]
