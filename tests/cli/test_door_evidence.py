"""By what the door saw a person stands in records of that command, and in no other's."""

from pathlib import Path

import click
import pytest

from gate.driving import governed, machine
from remit.cli.person_only import require_person
from remit.core.acts import Act
from remit.core.record import Body
from remit.gate.gate import Gate
from remit.workspace.place.workspace import locate_workspace

pytestmark = pytest.mark.system


def test_evidence_is_of_one_persons_command(repository: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)
    gate = Gate(locate_workspace(governed(repository)), machine(home))
    body = Body(event="denied", intent_id=None, session_id=None)

    def has_evidence(agent: str | None = None) -> bool:
        return "door" in (gate.recorder.make_record(body, agent).body.detail or {})

    with click.Context(click.Command("mode")):
        require_person(Act.RAISE_MODE)
        assert has_evidence()
        assert not has_evidence("claude-code"), "an agent's record is no person's"
    assert not has_evidence(), "what the process does later is another's"
    gate.close()
