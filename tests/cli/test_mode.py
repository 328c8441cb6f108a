"""`remit mode`: what it says of the mode, of what is broken, and of what enforce would have refused."""

import os
from pathlib import Path

import pytest

from cli.running import data
from cli.test_approvals import output
from gate.driving import Agent, governed


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    return Agent(governed(repository, "observe"), home)


def test_suggest_says_which_open_intent_would_have_let_it_pass(agent: Agent) -> None:
    for path in ("src/a.py", "src/b.py", "elsewhere/c.py"):
        agent.write(path, "x\n")
    found = data(agent.cwd, "mode", "suggest")
    assert (found["refused"], found["within"], found["by_rule"]) == (3, {"INT-001": 2}, {"active_intent": 3})
    said = output(agent.cwd, "mode", "suggest")
    assert "2 of them pass once the agent selects INT-001" in said
    assert "Most of it lies within open intents" in said


def test_what_nothing_brings_back_counts_and_no_intent_would_have_let_it_pass(agent: Agent) -> None:
    agent.ask("Bash", command="git push --force")
    found = data(agent.cwd, "mode", "suggest")
    assert (found["refused"], found["within"]) == (1, {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('mode = "enforced"', "expected observe or warn or enforce"),
        ("mode = observe", "cannot be used"),
        ('mode = "observe"\n[share]\nlog = "yes"', "expected off or ref or tree"),
    ],
)
def test_a_broken_configuration_is_said_beside_the_mode_that_it_makes(agent: Agent, text: str, said: str) -> None:
    (agent.cwd / ".orchestration" / "remit.toml").write_text(text)
    told = output(agent.cwd, "mode")
    assert said in told
    assert "enforce: changes need an intent" in told


def test_enforce_without_an_open_intent_says_what_that_means(agent: Agent) -> None:
    (agent.cwd / ".orchestration" / "active_intents.yaml").write_text("active_intents: []\n")
    assert "no intent is open" in output(agent.cwd, "mode", "enforce")
    (agent.cwd / ".orchestration" / "active_intents.yaml").write_text("active_intents: [\n")
    assert "remit intent lint" in output(agent.cwd, "mode")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            b'mode = "observe"  # for now\r\n\r\n[share]\r\nlog = "ref"\r\n',
            b'mode = "warn"  # for now\r\n\r\n[share]\r\nlog = "ref"\r\n',
        ),
        (b"# ours\r\n[share]\r\n", b'mode = "warn"\r\n# ours\r\n[share]\r\n'),
        (b"mode='observe'# x\n\tpressure = {}\n", None),
        (b"# no end", b'mode = "warn"\n# no end'),
        (b'  mode  =  "observe"\t\n', b'mode = "warn"\t\n'),
    ],
)
def test_setting_the_mode_leaves_all_else_byte_for_byte(agent: Agent, before: bytes, after: bytes | None) -> None:
    path = agent.cwd / ".orchestration" / "remit.toml"
    path.write_bytes(before)
    output(agent.cwd, "mode", "warn", code=0 if after else 2)
    assert path.read_bytes() == (after or before)


def test_a_mode_that_cannot_be_set_leaves_the_file_as_it_was(agent: Agent) -> None:
    path = agent.cwd / ".orchestration" / "remit.toml"
    path.write_bytes(b'"mode" = "observe"\r\n')
    assert "by hand" in output(agent.cwd, "mode", "warn", code=2)
    assert path.read_bytes() == b'"mode" = "observe"\r\n'


@pytest.mark.parametrize("spoil", ["pipe", "bytes", "folder"])
def test_a_configuration_that_is_no_text_is_named_and_not_waited_for(agent: Agent, spoil: str) -> None:
    path = agent.cwd / ".orchestration" / "remit.toml"
    path.unlink()
    {"pipe": lambda: os.mkfifo(path), "bytes": lambda: path.write_bytes(b"\xff\xfe"), "folder": path.mkdir}[spoil]()
    said = output(agent.cwd, "mode", "warn", code=2)
    assert "remit.toml is not UTF-8" in said if spoil == "bytes" else "not a file" in said
