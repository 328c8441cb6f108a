"""`remit schema`: what the gate writes fits what is published."""

import json
from pathlib import Path

from jsonschema import Draft202012Validator

from cli.running import data, remit
from gate.driving import Agent, body, governed, records


def test_each_listed_shape_is_printed(tmp_path: Path) -> None:
    names = [found["name"] for found in data(tmp_path, "schema", "--list")]
    assert {"intents-file", "record", "violation", "config", "decision"} <= set(names)
    assert json.loads(remit(tmp_path, "schema", "record"))["title"] == "record"
    remit(tmp_path, "schema", "nonsense", code=2)


def test_what_the_gate_records_validates(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository), home)
    agent.send("SessionStart", source="startup", model="m")
    agent.write("docs/no.md", "x")
    agent.select()
    agent.write("src/a.py", "one\ntwo\n")
    agent.shell("rm src/app.py")
    agent.send("SessionEnd", reason="other")
    schema = json.loads(remit(repository, "schema", "record"))
    validator = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    found = records(repository)
    assert [str(error.message) for record in found for error in validator.iter_errors(record)] == []
    violations = [body(record)["violation"] for record in found if body(record)["event"] == "denied"]
    told = Draft202012Validator(json.loads(remit(repository, "schema", "violation")))
    assert violations
    assert all(told.is_valid(violation) for violation in violations)


def test_what_blame_and_why_answer_fits_what_is_published(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository), home)
    agent.write("docs/no.md", "x")
    agent.select()
    agent.write("src/app.py", "def main():\n    return 22\n")
    lines = data(repository, "blame", "src/app.py")["lines"]
    told = data(repository, "why", "src/app.py")
    for answers, name, struct in ((lines, "blamed-line", "BlamedLine"), ([told], "explanation", "Explanation")):
        schema = json.loads(remit(repository, "schema", name))
        validator = Draft202012Validator(schema)
        assert [error.message for answer in answers for error in validator.iter_errors(answer)] == []
        assert set(answers[0]) == set(schema["$defs"][struct]["properties"])
