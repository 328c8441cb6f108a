"""Records in other forms, and their filters."""

import csv
import json
from pathlib import Path

import pytest

from cli.test_ledger import data, remit
from gate.driving import Agent, governed
from remit.core.shapes import read_older


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
    found = [read_older(line.encode()) for line in lines]
    assert found
    assert {d["metadata"]["dev.remit"]["shape"] for d in found if d} == {form}
    assert None not in found
    assert any("src/a.py" in json.dumps(d) for d in found)


def test_csv_has_a_row_for_each_record(agent: Agent) -> None:
    rows = list(csv.DictReader(remit(agent.cwd, "export", "--as", "csv").splitlines()))
    assert len(rows) == len(data(agent.cwd, "log", "-n", "500"))
    assert any(row["event"] == "mutation" and row["paths"] == "src/a.py" for row in rows)


def test_filters_narrow_an_export(agent: Agent) -> None:
    assert data(agent.cwd, "export", "--intent", "INT-999")["lines"] == []
    assert data(agent.cwd, "export", "--since", "1h", "--agent", "claude-code")["lines"]
    assert data(agent.cwd, "export", "--until", "1h")["lines"] == []
    remit(agent.cwd, "export", "--since", "yesterday", code=2)


def test_log_can_be_turned_round(agent: Agent) -> None:
    newest = [d["id"] for d in data(agent.cwd, "log", "-n", "3")]
    assert [d["id"] for d in data(agent.cwd, "log", "-n", "3", "--reverse")] == newest[::-1]
    assert all("src/a.py" in json.dumps(d) for d in data(agent.cwd, "log", "--text", "a.py"))
