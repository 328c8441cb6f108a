"""Records in other forms, and their filters."""

import csv
import json
from io import StringIO
from pathlib import Path

import pytest

from cli.running import data, remit
from forked_commands import run_in_bytes
from gate.driving import Agent, governed
from remit.core.diff.contents import hash_git_blob, sha256
from remit.core.formats.foreign_records import convert_older_record, export_record


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    found = Agent(governed(repository), home)
    found.select()
    found.write("src/a.py", "one\n")
    found.shell("true")
    return found


@pytest.mark.parametrize("form", ["s1", "s2", "s3", "s4"])
def test_what_is_exported_is_read_as_that_shape(agent: Agent, form: str) -> None:
    lines = remit(agent.cwd, "export", "--as", form).splitlines()
    found = [convert_older_record(line.encode()) for line in lines]
    assert found
    assert {d["metadata"]["dev.remit"]["shape"] for d in found if d} == {form}
    assert None not in found
    assert any("src/a.py" in json.dumps(d) for d in found)


def test_csv_has_a_row_for_each_record(agent: Agent) -> None:
    rows = list(csv.DictReader(remit(agent.cwd, "export", "--as", "csv").splitlines()))
    assert len(rows) == len(data(agent.cwd, "log", "-n", "500"))
    assert any(row["event"] == "mutation" and row["paths"] == "src/a.py" for row in rows)


def test_filters_narrow_an_export(agent: Agent) -> None:
    assert data(agent.cwd, "export", "--since", "1h", "--agent", "claude-code")["lines"]
    assert data(agent.cwd, "export", "--until", "1h")["lines"] == []
    assert data(agent.cwd, "export", "--since", "yesterday")["lines"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--since", "garbage"], "'2 days ago'"),
        (["--since", ""], "is no time"),
        (["--event", "mutations"], "mutation"),
        (["--intent", "INT-999"], "INT-001"),
        (["--agent", "claude"], "claude-code"),
        (["--session", "nobody"], "session-1"),
        (["--line", "3"], "--path"),
        (["--path", "/etc/passwd"], "/etc/passwd"),
    ],
)
@pytest.mark.parametrize("command", ["log", "export"])
def test_a_filter_that_nothing_can_meet_is_an_error_and_names_what_there_is(
    agent: Agent, command: str, words: list[str], told: str
) -> None:
    answer = json.loads(remit(agent.cwd, command, *words, "--json", code=2))
    assert told in answer["error"]["message"] + answer["error"]["fix"]


def test_an_export_that_fails_writes_nothing(agent: Agent) -> None:
    done = run_in_bytes(["export", "--as", "csv", "--intent", "INT-999"], agent.cwd)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"no record has the intent 'INT-999'" in done.stderr


def test_what_is_known_and_found_nothing_is_no_error(agent: Agent) -> None:
    assert data(agent.cwd, "log", "--event", "restore") == []
    assert data(agent.cwd, "log", "--intent", "INT-001", "--until", "1h") == []


def test_the_changes_of_a_line_are_listed(agent: Agent) -> None:
    (found,) = data(agent.cwd, "log", "--path", "./src/a.py", "--line", "1", "--event", "mutation")
    assert found["files"][0]["path"] == "src/a.py"
    assert data(agent.cwd, "log", "--path", "src/a.py", "--line", "2") == []


def test_search_tells_the_best_first_and_no_words_are_an_error(agent: Agent) -> None:
    assert "src/a.py" in remit(agent.cwd, "search", "a.py", "mutation")
    assert data(agent.cwd, "search", "(", "NOT", '"') == []
    assert "there is no word" in remit(agent.cwd, "search", "--json", "--", "--", code=2)


def test_log_can_be_turned_round(agent: Agent) -> None:
    newest = [d["id"] for d in data(agent.cwd, "log", "-n", "3")]
    assert [d["id"] for d in data(agent.cwd, "log", "-n", "3", "--reverse")] == newest[::-1]
    assert all("src/a.py" in json.dumps(d) for d in data(agent.cwd, "log", "--text", "a.py"))


def test_an_in_toto_statement_names_the_contents_that_a_change_left(agent: Agent) -> None:
    (line,) = remit(agent.cwd, "export", "--as", "in-toto").splitlines()
    statement = json.loads(line)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["subject"] == [
        {"name": "src/a.py", "digest": {"sha256": sha256(b"one\n"), "gitBlob": hash_git_blob(b"one\n")}}
    ]
    assert statement["predicate"]["metadata"]["dev.remit"]["event"] == "mutation"


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "＝"])
def test_no_cell_is_a_formula(start: str) -> None:
    text = f"{start}cmd|' /C calc'!A1"
    (line,) = export_record({"id": text, "metadata": {"dev.remit": {"event": "tool_use"}}}, "csv")
    (found,) = csv.reader(StringIO(line))
    assert found[0] == "'" + text
