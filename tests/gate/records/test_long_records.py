"""No line of the log is longer than 64 KB; a record of very many files is there whole, in as many lines as it takes."""

from pathlib import Path
from typing import Any

import pytest

from conftest import run_git
from gate.containment.test_rewrite_call import python, run
from gate.driving import Agent, body, governed, lines, machine, overlay, records
from remit.core.record import Body, CallPart, Content, Conversation, MutatedFile, Range, TracedFile, list_part_ids
from remit.gate.gate import Gate
from remit.gate.records.recorder import MAX_LINE_BYTES
from remit.ledger.file_changes import read_changes
from remit.ledger.index.index import Index
from remit.ledger.verify_log import verify_log

MANY = 20_000


@pytest.fixture
def gate(repository: Path, home: Path) -> Gate:
    governed(repository)
    return Gate.open(repository, machine(home))


def content(n: int) -> Content:
    return Content(sha256=f"{n:064x}", git_blob=f"{n:040x}", lines=1)


def longest(root: Path) -> int:
    return max(map(len, lines(root)))


@pytest.mark.live
def test_a_change_of_very_many_files_is_recorded_whole_in_lines_that_are_read(gate: Gate, repository: Path) -> None:
    names = [f"src/{'deep/' * 20}{n}" for n in range(MANY)]
    files = tuple(MutatedFile(path=name, operation="create", after=content(n)) for n, name in enumerate(names))
    gone = MutatedFile(path="src/gone", operation="delete", before=content(1))
    made = gate.recorder.make_record(
        Body(
            event="mutation",
            intent_id="INT-001",
            session_id="s",
            call=CallPart(id="c1", paths=(*names, "src/gone")),
            files=(*files, gone),
            in_scope=True,
        ),
        files=tuple(TracedFile(path=name, conversations=()) for name in names),
    )
    assert gate.recorder.append_or_spool([made]) is None
    assert gate.recorder.spool.count_pending() == 0
    found = [one for one in records(repository) if body(one)["event"] == "mutation"]
    assert [file["path"] for one in found for file in body(one)["files"]] == [*names, "src/gone"]
    assert [file["path"] for one in found for file in one["files"]] == names
    assert [path for one in found for path in body(one)["call"]["paths"]] == [*names, "src/gone"]
    assert found[0]["id"] == made.id
    assert [one["id"] for one in found] == list_part_ids(body(found[-1])["part"], len(found))
    assert longest(repository) <= MAX_LINE_BYTES
    changes = [change for line in lines(repository) for change in read_changes(line)]
    assert all(change.has_deletions for change in changes)
    with Index.open(gate.workspace.state / "index.db", gate.workspace.log_folder) as index:
        index.catch_up()
        assert index.list_changes(names[-1])[0].after_blob == f"{MANY - 1:040x}"
    assert not verify_log(gate.workspace.log_folder)


def test_one_file_of_very_many_ranges_has_room_and_keeps_what_attribution_reads(gate: Gate, repository: Path) -> None:
    ranges = tuple(Range(start_line=2 * n, end_line=2 * n, content_hash="sha256:" + "0" * 64) for n in range(1, 5001))
    unproved = tuple((2 * n, 2 * n) for n in range(1, 3001))
    file = MutatedFile(
        path="src/a", operation="modify", before=content(1), after=content(2), ranges=ranges, unproved=unproved
    )
    spoken = (Conversation(ranges=ranges, url="urn:remit:session:s"),)
    made = gate.recorder.make_record(
        Body(event="mutation", intent_id=None, session_id="s", files=(file,)),
        files=(TracedFile(path="src/a", conversations=spoken),),
    )
    assert gate.recorder.append_or_spool([made]) is None
    [change] = [change for line in lines(repository) for change in read_changes(line) if change.path == "src/a"]
    assert (change.before_blob, change.after_blob) == (f"{1:040x}", f"{2:040x}")
    assert change.unproved_lines == ((1, 6000),)
    assert longest(repository) <= MAX_LINE_BYTES


@pytest.mark.parametrize(
    "more",
    [
        {"detail": {"paths": [f"src/{'x' * 60}{n}" for n in range(MANY)]}},
        {"violation": {"error_type": "X", "context": {"paths": ["p" * 100] * MANY, "said": "x" * 300_000}}},
        {"detail": {"rules": {f"src/{'x' * 60}{n}": "SCOPE_VIOLATION" for n in range(MANY)}}},
        {"call": CallPart(id="c1", name="Bash", paths=tuple(f"src/{'x' * 60}{n}" for n in range(MANY)))},
    ],
)
def test_what_no_file_makes_long_is_counted_with_a_digest(gate: Gate, repository: Path, more: dict[str, Any]) -> None:
    made = gate.recorder.make_record(Body(event="tool_use", intent_id=None, session_id="s", **more))
    assert gate.recorder.append_or_spool([made]) is None
    assert longest(repository) <= MAX_LINE_BYTES
    text = next(str(one) for one in records(repository, "tool_use"))
    assert f"_count': {MANY}" in text
    assert "_digest': 'sha256:" in text


def test_two_thousand_files_of_one_command_are_each_found(repository: Path, home: Path) -> None:
    overlay(home)
    governed(repository)
    (home / "tmp").mkdir(exist_ok=True)
    agent = Agent(repository, home)
    agent.select()
    text = "import os\nfor n in range(2000):\n    open(f'src/made_{n}.py', 'w').write(f'n = {n}\\n')"
    _, done = run(agent, python(text))
    assert done.returncode == 0, done.stderr
    assert longest(repository) <= MAX_LINE_BYTES
    found = [file["path"] for one in records(repository, "mutation") for file in body(one)["files"]]
    assert sorted(found) == sorted(f"src/made_{n}.py" for n in range(2000))
    agent.send("Stop")
    assert longest(repository) <= MAX_LINE_BYTES
    assert len(run_git(repository, "status", "--short", "-uall", "src").splitlines()) == 2000
