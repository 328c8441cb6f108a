"""A filter or formatter that ran as it was runs again, contained, as proof of what it wrote."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cli.running import data, remit
from gate.driving import Agent, body, governed, overlay, records
from provenance.test_blame import blame, commit
from remit.gate.effects.replays import MAX_FILE_BYTES, REPLAYS_FOLDER, run_replays
from remit.workspace.place.workspace import Workspace, find_git_root, has_replays, workspace_at

SEED = "".join(f"total_{n} = compute(request, {n})\nname_{n} = total_{n}\n" for n in range(4))
PERSONS = "value_of_person = { 'alpha':1,\n  'beta':2 }\ndef persons( first, second ):\n    return first+second\n"
AGENTS = "value_of_agent = { 'gamma':1,\n  'delta':2 }\ndef agents( first, second ):\n    return first-second\n"

SWAP = r"'s/(total)_([0-9]+) =/m\2_\1 =/'"
"""A script that puts words into lines which its text does not hold."""

FILTERS = {
    "sed": f"sed -i -E {SWAP} src/f.py",
    "sed, groups": r"sed -i 's/compute(\([a-z]*\), \([0-9]*\))/compute(\2, \1)/' src/f.py",
    "sed, by its whole name": f"sed -i -E {SWAP} {{root}}/src/f.py",
    "sed, below a folder": f"cd src && sed -i -E {SWAP} f.py",
    "sed, a second file": f"sed -E {SWAP} src/f.py > src/f2 && mv src/f2 src/f.py",
    "sed, a temporary file": f"sed -E {SWAP} src/f.py > {{tmp}}/f2 && mv {{tmp}}/f2 src/f.py",
    "perl": r"perl -pi -e 's/compute\((\w+), (\d+)\)/compute($2, $1)/' src/f.py",
    "awk": """awk '{{print NR ": " $0}}' src/f.py > src/f2 && mv src/f2 src/f.py""",
    "find": f"find src -name '*.py' -exec sed -i -E {SWAP} {{{{}}}} +",
    "grep and xargs": f"grep -l compute -r src | xargs sed -i -E {SWAP}",
    "tr": "tr a-m A-M < src/f.py > src/f2 && mv src/f2 src/f.py",
}
FORMATTERS = {
    "ruff": "ruff format -q --no-cache src/f.py",
    "black": "black -q src/f.py",
    "prettier": "prettier --write src/f.py",
}

PERSONS_SCRIPT = "const of_person = { a:1,\n  b:[1,2,3] }\nfunction persons( a,b ){ return a+b }\n"
AGENTS_SCRIPT = "const of_agent = { c:'x',\n  d:[1,2] }\nfunction agents( a,b ){ return a.map( x=>x+'agent' ) }\n"

FORGER = "if [ -d .git/objects ]; then sed -i 's/first+second/other(first)/' src/f.py; else {again}; fi"
"""A program with a formatter's name that does one thing in the repository, and another where it is run again."""


@pytest.fixture(autouse=True)
def sandbox(home: Path) -> None:
    overlay(home)


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    """Return an agent in observe, whose shell finds the programs in a folder of its own and in this environment."""
    governed(repository, "observe")
    (home / "tmp").mkdir(exist_ok=True)
    (home / "bin").mkdir()
    (repository / "src/app.py").unlink()
    (repository / "src/f.py").write_text(SEED)
    commit(repository)
    found = Agent(repository, home)
    path = os.pathsep.join((str(home / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]))
    found.environment = replace(found.environment, variables={"PATH": path})
    found.select()
    return found


def place(agent: Agent) -> Workspace:
    return workspace_at(agent.cwd, find_git_root(agent.cwd))


def shell(agent: Agent, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", agent.environment.variables["PATH"])
    agent.shell(command)


def replayed(agent: Agent) -> list[dict[str, Any]]:
    """Run what waits; the records of what that proved."""
    run_replays(place(agent), agent.environment)
    assert not has_replays(place(agent))
    return [body(record) for record in records(agent.cwd, "replay")]


def grades(agent: Agent, path: str = "src/f.py") -> dict[str, tuple[str, str | None]]:
    return {line.content: (line.origin, line.grade) for line in blame(agent.cwd, path)}


def write_program(agent: Agent, name: str, script: str) -> None:
    program = agent.home / "bin" / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


@pytest.mark.parametrize("command", FILTERS.values(), ids=FILTERS)
def test_a_filter_that_gives_the_same_again_wrote_every_changed_line(
    agent: Agent, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell(agent, command.format(root=agent.cwd, tmp=agent.home / "tmp"), monkeypatch)
    changed = set((agent.cwd / "src/f.py").read_text().splitlines()) - set(SEED.splitlines())
    assert changed
    assert not records(agent.cwd, "replay")
    [proof] = replayed(agent)
    assert proof["replays"] == records(agent.cwd, "mutation")[-1]["id"]
    found = grades(agent)
    assert {found[line] for line in changed} == {("ai", "exact")}
    assert {found[line] for line in found.keys() - changed} <= {("unknown", None)}


@pytest.mark.parametrize("name", FORMATTERS)
@pytest.mark.parametrize("committed", [True, False])
def test_each_line_of_a_formatted_file_stays_with_its_writer(
    agent: Agent, name: str, committed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which(name, path=agent.environment.variables["PATH"]) is None:
        pytest.skip(f"{name.upper()} IS NOT INSTALLED, ITS LAYOUTS ARE NOT TESTED: pip install {name}")
    (agent.cwd / "pyproject.toml").write_text("[tool.black]\nline-length = 40\n[tool.ruff]\nline-length = 40\n")
    (agent.cwd / ".prettierrc").write_text('{"overrides": [{"files": "*.py", "options": {"parser": "babel"}}]}')
    persons, agents = (PERSONS_SCRIPT, AGENTS_SCRIPT) if name == "prettier" else (PERSONS, AGENTS)
    (agent.cwd / "src/f.py").write_text(persons)
    commit(agent.cwd)
    agent.read("src/f.py")
    agent.write("src/f.py", persons + agents)
    if committed:
        commit(agent.cwd)
    shell(agent, FORMATTERS[name], monkeypatch)
    assert len(replayed(agent)) == 1
    found = grades(agent)
    assert {found[line] for line in found if "person" in line} == {("unknown", None)}
    assert {found[line] for line in found if "agent" in line} == {("ai", "normalised")}
    commit(agent.cwd)
    assert grades(agent) == found


def test_a_question_runs_what_waits(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    shell(agent, FILTERS["sed"], monkeypatch)
    assert has_replays(place(agent))
    lines = data(agent.cwd, "blame", "src/f.py")["lines"]
    assert [line["grade"] for line in lines] == ["exact", None] * 4
    assert "4 lines proved" in remit(agent.cwd, "log")
    remit(agent.cwd, "verify")


def test_an_answer_that_was_kept_before_the_proof_is_forgotten(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    shell(agent, FILTERS["sed"], monkeypatch)
    commit(agent.cwd)
    agent.write("src/other.py", "something_else = 1\n")
    assert ("ai", "likely") in grades(agent).values()
    replayed(agent)
    assert set(grades(agent).values()) == {("ai", "exact"), ("unknown", None)}


def test_what_a_person_saves_meanwhile_proves_nothing(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", agent.environment.variables["PATH"])
    command = f"sed -i -E {SWAP} src/f.py src/g.py"
    (agent.cwd / "src/g.py").write_text(SEED)
    before = agent.ask("Bash", command=command)
    subprocess.run(["sh", "-c", command], cwd=agent.cwd, check=True)
    with (agent.cwd / "src/f.py").open("a") as file:
        file.write("a_line_of_the_person = 1\n")
    agent.tell("Bash", before["call_id"], {"stdout": ""}, command=command)
    [proof] = replayed(agent)
    assert [file["path"] for file in proof["files"]] == ["src/g.py"]
    assert ("ai", "exact") not in grades(agent).values()
    assert ("ai", "exact") in grades(agent, "src/g.py").values()


def test_lines_of_a_persons_file_that_a_filter_read_stay_theirs(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    (agent.cwd / "notes.txt").write_text("one_note_of_a_person = 1\nsecond_note_of_theirs = 2\n")
    shell(agent, "sed -E 's/(second)_[a-z]*/third_\\1/' notes.txt > src/made.py", monkeypatch)
    assert len(replayed(agent)) == 1
    assert list(grades(agent, "src/made.py").values()) == [("unknown", None), ("ai", "exact")]


AGAIN = {
    "other content": "sed -i 's/second/third/' src/f.py",
    "a link to the file itself": 'rm -r src && ln -s "$REAL/src" src',
    "a link for the file": 'ln -sf "$REAL/src/f.py" src/f.py',
    "nothing": "true",
}


@pytest.mark.parametrize("again", AGAIN.values(), ids=AGAIN)
def test_a_program_that_gives_something_else_proves_nothing(
    agent: Agent, again: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (agent.cwd / "src/f.py").write_text(PERSONS)
    commit(agent.cwd)
    write_program(agent, "black", FORGER.format(again=again.replace("$REAL", str(agent.cwd))))
    shell(agent, "black src/f.py", monkeypatch)
    assert has_replays(place(agent))
    assert replayed(agent) == []


def test_a_program_that_runs_again_reaches_nothing_but_its_scratch_folder(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    (agent.cwd / "src/f.py").write_text(PERSONS)
    (agent.cwd / "unrelated.txt").write_text("as it was\n")
    (agent.home / "own.txt").write_text("as it was\n")
    commit(agent.cwd)
    before = (agent.cwd / "src/f.py").read_text()
    seen = agent.home / "seen"
    again = (
        f"echo x > {agent.home}/own.txt; echo x > {agent.cwd}/unrelated.txt; echo x > {agent.home}/made; "
        f"ls /sys/class/net > net; echo x > /tmp/left_by_replay; sed -i 's/first+second/other(first)/' src/f.py; "
        f"cp net {seen}; [ $(wc -l < net) = 1 ] && sed -i 's/value/seen/' src/f.py"
    )
    write_program(agent, "black", FORGER.format(again=again))
    shell(agent, "black src/f.py", monkeypatch)
    after = (agent.cwd / "src/f.py").read_text()
    assert after != before
    replayed(agent)
    assert (agent.home / "own.txt").read_text() == (agent.cwd / "unrelated.txt").read_text() == "as it was\n"
    assert (agent.cwd / "src/f.py").read_text() == after
    assert not (agent.home / "made").exists()
    assert not seen.exists()
    assert not Path("/tmp/left_by_replay").exists()


def test_a_program_that_never_ends_is_ended(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    (agent.cwd / "src/f.py").write_text(PERSONS)
    commit(agent.cwd)
    write_program(agent, "black", FORGER.format(again="sleep 3000 & sleep 3000"))
    shell(agent, "black src/f.py", monkeypatch)
    assert replayed(agent) == []


NOT_LEFT = {
    "a command in sed": "sed -i 's/total_0/echo amount/e' src/f.py",
    "a second file in sed": "sed -i 's/total_[0-9]*/amount/w src/g.py' src/f.py",
    "a program in perl": """perl -pi -e 's/total_0/system("true")/e' src/f.py""",
    "a pipe in awk": """awk '{print | "cat > src/f.py"}' src/f.py""",
    "a program of its own": "python3 -c \"p='src/f.py'; t=open(p).read(); open(p,'w').write(t.upper())\"",
    "git": f"sed -i -E {SWAP} src/f.py && git add src/f.py",
    "a file that may hold secrets": r"sed -i -E 's/(TO)(KEN)/\2\1/' .env",
    "a file elsewhere": r"sed -E 's/(line) ([0-9])/\2 \1/' ../elsewhere.txt > src/f.py",
}


@pytest.mark.parametrize("command", NOT_LEFT.values(), ids=NOT_LEFT)
def test_what_is_no_filter_of_the_projects_files_is_not_run_again(
    agent: Agent, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (agent.cwd / ".env").write_text("TOKEN=12345\n")
    (agent.cwd.parent / "elsewhere.txt").write_text("line 1 of another folder\n")
    commit(agent.cwd)
    shell(agent, command, monkeypatch)
    assert not has_replays(place(agent))


def test_a_large_file_is_not_filtered_again(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    (agent.cwd / "src/f.py").write_text("total_0 = 1\n" * (MAX_FILE_BYTES // 12 + 1))
    commit(agent.cwd)
    shell(agent, FILTERS["sed"], monkeypatch)
    assert "m0_total" in (agent.cwd / "src/f.py").read_text()
    assert not has_replays(place(agent))


def test_where_nothing_contains_a_command_none_is_run_again(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    shell(agent, FILTERS["sed"], monkeypatch)
    kept = agent.home / ".local/state/remit/sandbox/containment.json"
    known = json.loads(kept.read_text())
    kept.write_text(json.dumps({**known, "found": {"way": "none"}}))
    assert replayed(agent) == []


def test_what_a_dead_process_left_unfinished_goes(agent: Agent) -> None:
    left = place(agent).state / REPLAYS_FOLDER / ".new-1"
    left.mkdir(parents=True)
    os.utime(left, (0, 0))
    assert replayed(agent) == []
    assert not left.exists()


def test_what_cannot_be_read_keeps_no_other_waiting(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    left = place(agent).state / REPLAYS_FOLDER / "0"
    left.mkdir(parents=True)
    (left / "job.json").write_text("{}")
    shell(agent, FILTERS["sed"], monkeypatch)
    assert len(replayed(agent)) == 1
