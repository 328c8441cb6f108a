"""A governed repository with hooks, and a person's yes to them."""

from pathlib import Path
from typing import Any

from gate.driving import INTENTS, Agent, governed, machine
from remit.gate.gate import Gate
from remit.workspace.place.config import Trust, write_trust


def with_hooks(repository: Path, home: Path, hooks: str, *, mode: str = "enforce", intents: str = INTENTS) -> Agent:
    """An agent under INT-001 in a repository whose hooks are trusted."""
    governed(repository, mode, intents)
    agent = Agent(repository, home)
    assert agent.select().get("permissionDecision") is None
    put_hooks(repository, home, hooks)
    return agent


def put_hooks(repository: Path, home: Path, hooks: str) -> None:
    """Write hooks, and trust them."""
    (repository / ".orchestration" / "hooks").mkdir(exist_ok=True)
    (repository / ".orchestration" / "hooks" / "a.toml").write_text(hooks)
    trust_all(repository, home)


def trust_all(repository: Path, home: Path) -> None:
    """What `remit trust` leaves when a person says yes."""
    gate = Gate.open(repository, machine(home))
    assert gate.rules.config_error is None, gate.rules.config_error
    write_trust(
        home, Trust(gate.recorder.repository, str(repository), "2026-11-22T00:00:00Z", gate.rules.repository_commands)
    )


def hook(command: str, on: str = "before", **more: Any) -> str:
    """One `[[hooks]]` entry. It has a minute unless told otherwise: the machine may be busy."""
    rest = "".join(f"{key} = {value}\n" for key, value in {"timeout_s": 60, **more}.items())
    return f"[[hooks]]\non = \"{on}\"\ncommand = '''{command}'''\n{rest}"
