"""One checkout under several HOMEs: a container, `sudo`, a lost state folder, a copy on another computer."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from conftest import run_git
from forked_commands import run_command
from remit.core.record import Body, Chain, Record, encode_record
from remit.ledger.log_files import Head, read_head, write_head


class Machine:
    """A person at a machine: a HOME, with a key of its own."""

    def __init__(self, home: Path, cwd: Path) -> None:
        self.home = home
        self.cwd = cwd
        home.mkdir(exist_ok=True)
        shutil.copy(Path(os.environ["HOME"], ".gitconfig"), home)

    def run(self, *words: str, code: int = 0) -> str:
        environment = {**os.environ, "HOME": str(self.home)}
        done = run_command(words, self.cwd, environment)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def data(self, *words: str, code: int = 0) -> Any:
        return json.loads(self.run(*words, "--json", code=code))["data"]

    @property
    def name(self) -> str:
        return (self.home / ".local/state/remit/machine").read_text().strip()

    def log_of(self, name: str) -> Path:
        return self.cwd / ".git/remit/log" / name


@pytest.fixture
def host(repository: Path, tmp_path: Path) -> Machine:
    found = Machine(tmp_path / "host", repository)
    found.run("init", "--yes", "--no-agents")
    found.run("intent", "new", "one", "--scope", "src/**")
    return found


@pytest.fixture
def container(host: Machine, tmp_path: Path) -> Machine:
    return Machine(tmp_path / "container", host.cwd)


def intents(machine: Machine) -> list[str]:
    """The intents that records name, as one machine sees them, oldest first."""
    found = machine.data("log", "--event", "intent_changed")
    return list(dict.fromkeys(r["metadata"]["dev.remit"]["intent_id"] for r in reversed(found)))


def test_each_machine_has_a_log_of_its_own_and_all_are_read(host: Machine, container: Machine) -> None:
    container.run("intent", "new", "two", "--id", "INT-002", "--scope", "docs/**")
    host.run("intent", "new", "three", "--scope", "tools/**")
    for machine in (host, container):
        verified = machine.data("ledger", "verify")
        assert [(f["code"], f["severity"]) for f in verified["findings"]] == [("unproved", "warning")]
        assert machine.run("verify")
        assert "ledger" in {c["name"] for c in machine.data("doctor")["checks"] if c["level"] == "ok"}
        assert intents(machine) == ["INT-001", "INT-002", "INT-003"]
    assert {d.name for d in host.log_of("machines").iterdir()} == {container.name}
    assert read_head(host.log_of("")).seq == 1  # type: ignore[union-attr]


def test_what_another_machine_wrote_is_unproved_without_its_key(host: Machine, container: Machine) -> None:
    container.run("intent", "new", "two", "--scope", "docs/**", "--id", "INT-002")
    container.run("ledger", "head")
    lines = host.run("log").splitlines()
    assert ["(unproved)" in line for line in lines if "INT-002" in line] == [True]
    assert not [line for line in lines if "INT-001" in line and "(unproved)" in line]
    key = container.data("ledger", "key")["key"]
    config = host.cwd / ".orchestration/remit.toml"
    config.write_text(config.read_text() + f'\n[ledger]\ntrusted_keys = ["{key}"]\n')
    assert "(unproved)" not in "".join(line for line in host.run("log").splitlines() if "INT-002" in line)
    assert host.data("ledger", "verify")["findings"] == []


def test_a_head_under_another_home_harms_nothing(host: Machine, container: Machine) -> None:
    assert "the log is empty" in container.run("ledger", "head", "--json", code=2)
    container.run("intent", "new", "two", "--scope", "docs/**", "--id", "INT-002")
    container.run("ledger", "head")
    container.run("ledger", "witness")
    host.run("ledger", "head")
    host.run("ledger", "witness")
    for machine in (host, container):
        assert not [f for f in machine.data("ledger", "verify")["findings"] if f["severity"] == "error"]


def test_a_lost_state_folder_begins_a_log_and_the_old_one_is_read_on(host: Machine) -> None:
    host.run("ledger", "head")
    shutil.rmtree(host.home / ".local/state/remit")
    host.run("intent", "new", "two", "--scope", "docs/**")
    assert intents(host) == ["INT-001", "INT-002"]
    assert [f["code"] for f in host.data("ledger", "verify")["findings"]] == ["unproved"]
    host.run("verify")


def test_a_copy_of_the_repository_on_another_computer_goes_on(host: Machine, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(host.cwd, copy, symlinks=True)
    other = Machine(tmp_path / "other", copy)
    other.run("intent", "new", "two", "--scope", "docs/**")
    assert intents(other) == ["INT-001", "INT-002"]
    other.run("verify")
    host.run("verify")


def test_logs_of_both_machines_are_shared_under_their_names(host: Machine, container: Machine, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    run_git(tmp_path, "init", "-q", "--bare", str(bare))
    run_git(host.cwd, "remote", "add", "origin", str(bare))
    config = host.cwd / ".orchestration/remit.toml"
    config.write_text('mode = "observe"\n[share]\nlog = "ref"\n')
    container.run("intent", "new", "two", "--scope", "docs/**", "--id", "INT-002")
    for machine in (host, container):
        machine.run("ledger", "push", "origin")
    shared = run_git(bare, "for-each-ref", "--format=%(refname)", "refs/remit/log").split()
    assert sorted(shared) == sorted(f"refs/remit/log/{m.name}" for m in (host, container))
    clone = tmp_path / "clone"
    shutil.copytree(host.cwd, clone)
    shutil.rmtree(clone / ".git/remit")
    third = Machine(tmp_path / "third", clone)
    third.run("init", "--yes", "--no-agents")
    third.run("ledger", "fetch", "origin")
    assert {"INT-001", "INT-002"} <= set(intents(third))


def test_the_index_comes_back_the_same_from_both_logs(host: Machine, container: Machine) -> None:
    for number, machine in enumerate((container, host, container, host)):
        machine.run("intent", "new", f"more {number}", "--scope", f"more{number}/**")
    grown = intents(host)
    for path in (host.cwd / ".git/remit").glob("index.db*"):
        path.unlink()
    assert intents(host) == grown == [f"INT-{n:03d}" for n in range(1, 6)]


# --- repositories that were broken before ------------------------------------------------------------------


def append_as(machine: Machine, note: str, *, size: int = 1) -> None:
    """What an older version did under another HOME: go on in the log that lies there."""
    folder = machine.log_of("")
    head = read_head(folder)
    assert head is not None
    for number in range(size):
        chain = Chain(log=f"{'f' * 40}/{machine.name}", seq=head.seq + 1, prev=f"sha256:{head.leaf}")
        text = Body(event="lesson", intent_id=None, session_id=None, detail={"lesson": f"{note} {number}"})
        made = Record(id=f"0{number}-{note}", timestamp="2026-11-23T00:00:00.000000Z", body=text)
        line = encode_record(made, chain)
        with (folder / head.segment).open("ab") as file:
            file.write(line + b"\n")
        head = Head(head.seq + 1, leaf(line), head.segment, head.end + len(line) + 1, head.synced)
        write_head(folder, head)


def leaf(line: bytes) -> str:
    from remit.core.record import hash_leaf

    return hash_leaf(line).hex()


@pytest.fixture
def broken(host: Machine, container: Machine) -> Machine:
    container.run("ledger", "key")
    append_as(container, "from the container", size=2)
    host.run("intent", "new", "two", "--scope", "docs/**")
    return host


def test_one_command_repairs_what_an_older_version_left(broken: Machine, container: Machine) -> None:
    before = (broken.log_of("") / "000000000000.jsonl").read_bytes()
    codes = [f["code"] for f in broken.data("ledger", "verify", code=5)["findings"]]
    assert codes == ["wrong_log"]
    broken.run("verify", code=5)
    broken.run("ledger", "repair", code=2)
    assert "1 findings acknowledged" in broken.run("ledger", "repair", "--yes")
    found = broken.data("ledger", "verify")["findings"]
    assert [(f["code"], f["severity"]) for f in found] == [("wrong_log", "warning")]
    broken.run("verify")
    assert (broken.log_of("") / "000000000000.jsonl").read_bytes().startswith(before)
    said = broken.data("log", "--event", "recovery")
    assert said[0]["metadata"]["dev.remit"]["reason"] == "acknowledged"
    # The other machine reads the same, and goes on in a log of its own.
    container.run("intent", "new", "three", "--scope", "tools/**")
    container.run("ledger", "verify")
    container.run("verify")


def test_a_repaired_log_is_whole_only_while_nobody_alters_it(broken: Machine) -> None:
    broken.run("ledger", "repair", "--yes")
    segment = broken.log_of("") / "000000000000.jsonl"
    segment.write_bytes(segment.read_bytes().replace(b"from the container 0", b"from the container 9"))
    codes = {f["code"] for f in broken.data("ledger", "verify", code=5)["findings"] if f["severity"] == "error"}
    assert {"altered", "rewritten"} <= codes


def test_an_acknowledgement_that_no_key_signed_counts_for_nothing(broken: Machine) -> None:
    finding = broken.data("ledger", "verify", code=5)["findings"][0]
    folder = broken.log_of("")
    head = read_head(folder)
    assert head is not None
    name = json.loads((folder / head.segment).read_bytes().splitlines()[0])["metadata"]["dev.remit"]["chain"]["log"]
    subject = f"{finding['code']} {finding['seq']}-{finding['last_seq']} {finding['segment']}:{finding['line']}"
    detail = {"reason": "acknowledged", "by": "person", "findings": [{"log": name, "subject": subject}]}
    text = Body(event="recovery", intent_id=None, session_id=None, detail=detail)
    forged = Record(id="f", timestamp="2026-11-23T00:00:00.000000Z", body=text)
    line = encode_record(forged, Chain(log=name, seq=head.seq + 1, prev=f"sha256:{head.leaf}"))
    with (folder / head.segment).open("ab") as file:
        file.write(line + b"\n")
    write_head(folder, Head(head.seq + 1, leaf(line), head.segment, head.end + len(line) + 1, head.synced))
    codes = [f["code"] for f in broken.data("ledger", "verify", code=5)["findings"] if f["severity"] == "error"]
    assert codes == ["wrong_log"]


def test_an_agent_may_not_repair(broken: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    broken.run("ledger", "repair", "--yes", code=3)


# --- forgeries ---------------------------------------------------------------------------------------------


def test_forged_records_do_not_pass_for_another_machines(host: Machine, container: Machine) -> None:
    container.run("intent", "new", "two", "--scope", "docs/**", "--id", "INT-002")
    own = container.log_of("machines") / container.name / "000000000000.jsonl"
    own.write_bytes(own.read_bytes().replace(b'"by":"person"', b'"by":"nobody"'))
    codes = [f["code"] for f in host.data("ledger", "verify", code=5)["findings"] if f["severity"] == "error"]
    assert codes == ["altered"]
    container.run("verify", code=5)


def test_a_pipe_in_place_of_another_machines_log_is_not_waited_for(host: Machine) -> None:
    folder = host.log_of("machines") / ("a" * 12)
    folder.mkdir(parents=True)
    os.mkfifo(folder / "000000000000.jsonl")
    assert [f["code"] for f in host.data("ledger", "verify")["findings"]] == ["unreadable"]
    assert intents(host) == ["INT-001"]


def test_a_log_cannot_be_given_another_owner(host: Machine) -> None:
    (host.log_of("") / "owner").write_text(f"{'a' * 40}/{'b' * 12}\n")
    host.run("verify", code=5)
    assert "wrong_log" in host.run("ledger", "verify", code=5)


def test_a_log_whose_owner_is_not_noted_is_its_first_writers(host: Machine, container: Machine) -> None:
    (host.log_of("") / "owner").unlink()
    container.run("intent", "new", "two", "--scope", "docs/**", "--id", "INT-002")
    host.run("intent", "new", "three", "--scope", "tools/**")
    assert (host.log_of("") / "owner").read_text().strip().endswith(host.name)
    host.run("verify")


def test_the_live_view_doubles_no_record(host: Machine, container: Machine) -> None:
    container.run("intent", "new", "two", "--scope", "docs/**", "--id", "INT-002")
    exported = [json.loads(line)["id"] for line in host.run("export", "--as", "agent-trace").splitlines() if line]
    assert len(exported) == len(set(exported))
    assert intents(host) == ["INT-001", "INT-002"]


def test_altered_records_are_not_repaired(host: Machine) -> None:
    segment = host.log_of("") / "000000000000.jsonl"
    host.run("intent", "new", "two", "--scope", "docs/**")
    segment.write_bytes(segment.read_bytes().replace(b'"name":"one"', b'"name":"eno"'))
    host.run("ledger", "repair", "--yes", code=5)
    host.run("verify", code=5)


def test_a_head_that_an_older_version_signed_over_anothers_log_is_no_error(broken: Machine, container: Machine) -> None:
    # Heads are signed for `<repository>/<machine>`; the older version took the log that lay there for its own.
    from remit.core.tree_head import TreeHead, sign_head
    from remit.ledger.tree_heads import measure_tree

    folder = broken.log_of("")
    measured = measure_tree(folder, None, whole=True).frontier
    assert measured is not None
    repository = json.loads((folder / "000000000000.jsonl").read_bytes().splitlines()[0])["metadata"]["dev.remit"]
    name = f"{repository['chain']['log'].partition('/')[0]}/{container.name}"
    seed = (container.home / ".local/state/remit/key").read_bytes()
    note = sign_head(TreeHead(name, measured.size, bytes.fromhex(measured.root)), seed)
    (container.home / "note").write_text(note)
    run_git(broken.cwd, "notes", "--ref=remit", "add", "-F", str(container.home / "note"), "HEAD")
    broken.run("ledger", "repair", "--yes")
    container.run("intent", "new", "three", "--scope", "tools/**")
    container.run("ledger", "verify")
