"""Lines and records are told with today's id of their intent, whatever became of its label."""

from pathlib import Path

from cli.running import data, remit
from conftest import run_git
from gate.driving import Agent, body, governed, records
from remit.gate.gate import Gate
from remit.provenance.origins.intent_names import IntentNames

MINE = "id: INT-001\nname: Mine\nowned_scope:\n  - src/**\ncreated_at: 2026-11-01T00:00:00Z\n"
THEIRS = MINE.replace("Mine", "Theirs").replace("11-01", "11-02").replace("src", "docs")
CODE = "def main():\n    total = compute_everything()\n    return total\n"


def blamed(root: Path) -> set[str]:
    return {line["intent_id"] for name in ("a", "b") for line in data(root, "blame", f"src/{name}.py")["lines"]}


def test_a_line_has_the_intent_that_it_was_written_under(repository: Path, home: Path) -> None:
    governed(repository)
    folder = repository / ".orchestration"
    with (folder / "remit.toml").open("a") as settings:
        settings.write('\n[share]\nnotes = true\n[trailers]\nstyle = "Remit-Intent"\n')
    (folder / "active_intents.yaml").unlink()
    (folder / "intents").mkdir()
    (folder / "intents/INT-001-mine.yaml").write_text(MINE)
    agent = Agent(repository, home)
    agent.select()
    agent.write("src/a.py", CODE)
    run_git(repository, "add", "-A")
    (folder / "intents/INT-001-theirs.yaml").write_text(THEIRS)
    agent.write("src/b.py", CODE.replace("main", "other"))
    run_git(repository, "add", "-A")
    uid = body(records(repository, "mutation")[0])["intent_uid"]
    assert remit(repository, "trailers") == f"Remit-Intent: INT-001~{uid}\n"
    run_git(repository, "commit", "-qm", "work")

    assert blamed(repository) == {"INT-001"}
    remit(repository, "notes", "write")
    assert f"INT-001~{uid}" in run_git(repository, "log", "--notes=ai", "-1", "--format=%N")
    with Gate.open(repository).index() as index:
        names, old = IntentNames(index), {"intent_id": "INT-001"}
        assert names.find_name(old) == "INT-001?"
        assert len(names.list_candidates(old)) == 2

    said = remit(repository, "intent", "renumber", "INT-001", "--file", "INT-001-mine.yaml")
    new = said.split()[-2]
    assert blamed(repository) == {new}
    assert data(repository, "intent", "show", f"INT-001~{uid}")["id"] == new
    told = remit(repository, "why", "src/a.py:2")
    assert f"{new} Mine" in told
    assert "then INT-001" in told
    assert "src/**" in told
    assert new in data(repository, "stats")["by_intent"]
    with Gate.open(repository).index() as index:
        assert IntentNames(index).find_distinct_name({"intent_id": "INT-001", "intent_uid": uid}) == new
