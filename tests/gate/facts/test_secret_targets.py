"""Secrets under `remit run`: file tools ask once for each path, commands find nothing, in every mode."""

from pathlib import Path
from typing import Literal

import pytest

from gate.driving import overlay, overlay_untried
from gate.test_floor import MODES, SESSION, open_own, run, write
from remit.core.call import ToolCall
from remit.core.decision import Target
from remit.gate.facts.secret_targets import note_shown
from remit.gate.gate import Gate
from remit.gate.perform import Performed, ToolOutput


@pytest.fixture(params=MODES)
def gate(request: pytest.FixtureRequest, repository: Path, home: Path) -> Gate:
    (home / ".ssh").mkdir()
    (home / ".ssh/id_rsa").write_text("SECRET\n")
    (home / ".ssh/config").write_text("Host x\n")
    (home / ".netrc").write_text("SECRET\n")
    overlay_untried(home)
    return open_own(repository, home, request.param)


def read(gate: Gate, path: str, tool: str = "read_file", call_id: str = "c1") -> Performed:
    call = ToolCall("remit", SESSION, tool, "read", str(gate.workspace.root), call_id, paths=(path,))
    return gate.perform(call, lambda _: ToolOutput(True, "read"))


def refused(done: Performed) -> str | None:
    return done.violation.error_type if done.violation is not None else None


def test_a_file_tool_reads_a_secret_only_with_a_yes(gate: Gate) -> None:
    home = gate.environment.home
    (gate.workspace.root / "src/link").symlink_to(home / ".netrc")
    for number, path in enumerate(("~/.ssh/id_rsa", str(home / ".netrc"), "src/link")):
        done = read(gate, path, call_id=f"r{number}")
        assert (done.output, refused(done)) == (None, "OUTSIDE_WORKSPACE")
    assert read(gate, str(home), "search_files", "s1").output is None
    assert read(gate, str(home), "list_files", "s2").output is not None
    for number, path in enumerate(("~/.ssh/config", "~/.profile", "src/app.py")):
        assert read(gate, path, call_id=f"o{number}").output is not None


def test_a_yes_holds_for_its_path_and_session(gate: Gate) -> None:
    home = gate.environment.home
    note_shown(gate.state, SESSION, (Target("x", str(home / ".netrc"), None, secret=True),))
    assert read(gate, "~/.netrc", call_id="r1").output is not None
    assert read(gate, "~/.ssh/id_rsa", call_id="r2").output is None
    assert write(gate, str(home / ".netrc"), call_id="w1").output is None


@pytest.mark.parametrize("effect", ["write", "delete"])
def test_nobody_writes_a_secret(gate: Gate, effect: Literal["write", "delete"]) -> None:
    done = write(gate, str(gate.environment.home / ".ssh/id_rsa"), effect)
    assert refused(done) == "PROTECTED_PATH"
    assert (gate.environment.home / ".ssh/id_rsa").read_text() == "SECRET\n"


COMMANDS = """\
cat ~/.ssh/id_rsa
cat $HOME/.netrc
cat ~/.s*/id_rsa
cat ~/.s"s"h/id_rsa
cat ~/.ss\\h/id_rsa
cd ~/.ssh && cat id_rsa
cd ~ && cat .netrc
D=~/.ssh; cat $D/id_rsa
sh -c 'cat ~/.netrc'
grep -rh SECRET ~
cp ~/.netrc src/copy.txt; cat src/copy.txt
cat src/link
cat <~/.netrc
cat ~/.{netrc,profile}
""".splitlines()


@pytest.mark.live
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_shows_a_secret(repository: Path, home: Path, command: str) -> None:
    (home / ".ssh").mkdir()
    (home / ".ssh/id_rsa").write_text("SECRET\n")
    (home / ".netrc").write_text("SECRET\n")
    overlay(home)
    gate = open_own(repository, home, "observe")
    (repository / "src/link").symlink_to(home / ".netrc")
    run(gate, command)
    output = home / "output"
    assert not output.exists() or "SECRET" not in output.read_text().replace(command, "")


def test_reading_elsewhere_runs_as_it_did(repository: Path, home: Path) -> None:
    (home / ".netrc").write_text("SECRET\n")
    assert run(open_own(repository, home, "observe"), "cat src/app.py").decision.effect == "allow"
