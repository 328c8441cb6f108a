"""A record of very many files is in the log, in as many lines as it takes."""

from pathlib import Path

from gate.driving import body, governed, machine, records
from remit.core.record import Body, Content, MutatedFile, TracedFile
from remit.gate.gate import Gate
from remit.ledger.segments import LINE_LIMIT
from remit.workspace.place import git_root, workspace_at

MANY = 12_000


def test_a_change_of_very_many_files_is_recorded_whole(repository: Path, home: Path) -> None:
    governed(repository)
    gate = Gate(workspace_at(repository, git_root(repository)), machine(home))
    names = [f"src/{'deep/' * 50}{n}" for n in range(MANY)]
    files = tuple(MutatedFile(path=name, operation="create", after=Content(sha256="0" * 64)) for name in names)
    made = gate.recorder.record(
        Body(event="mutation", intent_id="INT-001", session_id="s", files=files),
        files=tuple(TracedFile(path=name, conversations=()) for name in names),
    )
    assert gate.recorder.append_or_spool([made]) is None
    assert gate.recorder.spool.pending() == 0
    found = [one for one in records(repository) if body(one)["event"] == "mutation"]
    assert [file["path"] for one in found for file in body(one)["files"]] == names
    assert [file["path"] for one in found for file in one["files"]] == names
    assert len({one["id"] for one in found}) == len(found) > 1
    assert found[0]["id"] == made.id
    assert 2 * max(len(str(one)) for one in found) < 3 * LINE_LIMIT
