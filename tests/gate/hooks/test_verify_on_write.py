"""Commands that run after a write: trusted ones only, as themselves, in their time, and never twice."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gate.driving import INTENTS, Agent, allowed, body, governed, machine, records
from gate.hooks.trusted_hooks import trust_all
from remit.cli.blame.blame import blame
from remit.core.config import OnWriteCommand
from remit.gate.gate import Gate


def working(repository: Path, home: Path, *rules: str, trusted: bool = True, mode: str = "enforce") -> Agent:
    """An agent in a repository with these commands."""
    governed(repository, mode, INTENTS)
    config = repository / ".orchestration" / "remit.toml"
    config.write_text(f"{config.read_text()}\n[verify]\non_write = [{', '.join(rules)}]\n")
    if trusted:
        trust_all(repository, home)
    agent = Agent(repository, home)
    agent.select()
    return agent


def rule(command: str, paths: str = "src/**", **more: object) -> str:
    """One entry."""
    rest = "".join(f", {key} = {value}" for key, value in {"timeout_s": 30, **more}.items())
    return f"{{paths = \"{paths}\", command = '''{command}'''{rest}}}"


def told(answer: dict[str, Any]) -> str:
    """What the model is told after the call."""
    return str(answer["after"].get("additionalContext", ""))


UPPER = 'for f in {paths}; do tr a-z A-Z <"$f" >.git/t && cat .git/t >"$f"; done'


@pytest.mark.parametrize("mode", ["enforce", "observe"])
def test_what_a_formatter_rewrites_is_its_own_and_not_stale(mode: str, repository: Path, home: Path) -> None:
    agent = working(repository, home, rule(UPPER), mode=mode)
    answer = agent.write("src/a.py", "abc\n")
    assert (repository / "src/a.py").read_text() == "ABC\n"
    assert "rewrote src/a.py" in told(answer)
    mutation, edit = body(records(repository, "mutation")[-1]), body(records(repository, "human_edit")[-1])
    assert mutation["files"][0]["after"]["sha256"] == edit["files"][0]["before"]["sha256"]
    assert (edit["origin"], edit["session_id"]) == ("verification", None)
    assert body(records(repository, "verification")[-1])["exit_code"] == 0
    assert allowed(agent.write("src/a.py", "def\n"))


LAYOUT = "import os\ndef greet(name, greeting='hello'):\n  return {'text':greeting+name, 'where':os.getcwd()}\n"
RELAY = """python3 - {path} <<'END'
import sys, pathlib
file = pathlib.Path(sys.argv[1])
text = file.read_text().replace("'", '"').replace("  return", "    return").replace("g+n", "g + n")
file.write_text("from __future__ import annotations\\n" + text)
END"""


def test_what_a_formatter_lays_out_anew_stays_the_agents_and_what_it_adds_is_named_as_its_work(
    repository: Path, home: Path
) -> None:
    agent = working(repository, home, rule("sh .git/format.sh {path}"))
    (repository / ".git" / "format.sh").write_text(RELAY.replace("{path}", '"$1"'))
    agent.write("src/a.py", LAYOUT)
    said = CliRunner().invoke(blame, ["--repo", str(repository), "--json", "src/a.py"]).output
    lines = json.loads(said)["data"]["lines"]
    assert [line["origin"] for line in lines] == ["unknown", "ai", "ai", "ai"]
    assert [line["intent_id"] for line in lines[1:]] == ["INT-001"] * 3
    [tool] = lines[0]["candidates"]
    assert (tool["agent"], tool["intent_id"], tool["command"]) == ("remit", "INT-001", "sh .git/format.sh {path}")


def test_a_failure_is_told_with_a_lesson_to_record(repository: Path, home: Path) -> None:
    agent = working(repository, home, rule("echo line 1 is bad; exit 3"))
    said = told(agent.write("src/a.py", "abc\n"))
    assert "failed (exit code 3)" in said
    assert "line 1 is bad" in said
    assert 'record_lesson({"kind":"lesson"' in said
    assert '"paths":["src/a.py"]' in said


def test_nothing_runs_that_nobody_trusts_nor_for_other_files(repository: Path, home: Path) -> None:
    agent = working(repository, home, rule("touch .git/ran"), trusted=False)
    agent.write("src/a.py", "abc\n")
    trust_all(repository, home)
    agent.write("docs/a.md", "abc\n")
    agent.read("src/a.py")
    assert not (repository / ".git" / "ran").exists()
    agent.shell("echo 1 > src/b.py")
    assert (repository / ".git" / "ran").exists()


def test_a_changed_command_is_not_the_one_that_was_trusted(repository: Path, home: Path) -> None:
    agent = working(repository, home, rule("true"))
    config = repository / ".orchestration" / "remit.toml"
    config.write_text(config.read_text().replace("'''true'''", "'''touch .git/ran'''"))
    agent.write("src/a.py", "abc\n")
    assert not (repository / ".git" / "ran").exists()


@pytest.mark.parametrize("command", ["printf '%s\\n' {paths} >.git/args", "printf '%s\\n' {path} >>.git/args"])
def test_a_files_name_is_an_argument_whatever_is_in_it(command: str, repository: Path, home: Path) -> None:
    agent = working(repository, home, rule(command))
    name = "src/a $(touch .git/ran) `touch .git/ran`; touch .git/ran '\" *.py"
    agent.write(name, "abc\n")
    assert (repository / ".git" / "args").read_text() == f"{name}\n"
    assert not (repository / ".git" / "ran").exists()


def test_one_that_takes_too_long_is_ended_and_told(repository: Path, home: Path) -> None:
    agent = working(repository, home, rule("sleep 1000", timeout_s=0.3))
    assert "was ended after 0." in told(agent.write("src/a.py", "abc\n"))


def test_a_command_that_makes_an_agent_write_does_not_start_itself_again(repository: Path, home: Path) -> None:
    nested = repository.parent / "nested.py"
    nested.write_text(
        f"import sys; sys.path[:0] = {sys.path!r}\n"
        "from pathlib import Path\nfrom gate.driving import Agent\n"
        f"agent = Agent(Path({str(repository)!r}), Path({str(home)!r}), session='nested')\n"
        "agent.select(); print(agent.write('src/nested.py', 'x\\n')['after'])\n"
    )
    agent = working(repository, home, rule(f"echo ran >> .git/ran; {sys.executable} {nested}"))
    agent.write("src/a.py", "abc\n")
    assert (repository / ".git" / "ran").read_text() == "ran\n"
    output = body(records(repository, "verification")[-1])["output"]
    assert "at work after another call" in output
    agent.write("src/b.py", "abc\n")
    assert (repository / ".git" / "ran").read_text() == "ran\nran\n"


@pytest.mark.parametrize(
    "command",
    [
        "",
        "ruff '{path}'",
        'ruff "{paths}"',
        "ruff x{path}",
        "ruff {path} {paths}",
        "sh <<E\n {path} \nE",
        "ruff '{path} ",
    ],
)
def test_a_command_that_would_read_names_as_shell_is_no_command(command: str) -> None:
    with pytest.raises(ValueError, match="on_write"):
        OnWriteCommand("src/**", command)


def test_words_are_filled_in() -> None:
    assert OnWriteCommand("**", ("fmt", "--file={path}")).build_runs(["a", "-b"]) == [
        ["fmt", "--file=a"],
        ["fmt", "--file=./-b"],
    ]
    assert OnWriteCommand("**", ("fmt", "{paths}")).build_runs(["a", "b"]) == [["fmt", "a", "b"]]
    assert OnWriteCommand("**", ("fmt", "{paths}")).build_runs(["@a", "+b", "é"]) == [["fmt", "./@a", "./+b", "é"]]


def test_a_broken_entry_is_an_error_of_the_configuration(repository: Path, home: Path) -> None:
    working(repository, home, "{paths = 'a', command = 'x {path}y'}", trusted=False)
    assert "on_write" in str(Gate.open(repository, machine(home)).rules.config_error)


def test_a_command_is_not_led_to_another_file_by_a_link(repository: Path, home: Path) -> None:
    agent = working(repository, home, rule("for f in {paths}; do echo formatted >>$f; done"))
    outside = home / "theirs.py"
    outside.write_text("theirs\n")
    agent.shell(f"ln -s {outside} src/link.py")
    assert outside.read_text() == "theirs\n"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("yes", "ended after"),
        ("head -c 100000000 /dev/zero; exit 3", "3"),
        ("sleep 1000 & exit 0", ""),
        ("rm -f {paths}", "rewrote"),
        ("kill -9 $$", "-9"),
        ("mkdir -p src/n && rm -f {paths} && mkdir {paths}", "rewrote"),
    ],
)
def test_a_command_that_misbehaves_ends_and_is_told(command: str, said: str, repository: Path, home: Path) -> None:
    agent = working(repository, home, rule(command, timeout_s=2 if command == "yes" else 30))
    answer = agent.write("src/a.py", "x\n")
    assert said in told(answer)
    assert ("ended after" in told(answer)) is (command == "yes")
    assert len(told(answer)) < 10_000
