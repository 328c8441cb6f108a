"""A warm process that watches records what one that looks at everything records."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gate.driving import Agent, body, effects, governed, machine, records
from remit.adapters import HookReply
from remit.cli.agents.doctor import doctor
from remit.gate.gate import Gate
from remit.gate.open_gates import OpenGates, WorktreeWatcher, WorktreeWatchers
from remit.servers.daemon import report_watching
from remit.servers.hook import HookFrame, answer
from remit.workspace.place.workspace import workspace_at
from waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")


class Warm(Agent):
    """An agent whose calls one warm process answers."""

    def __init__(self, cwd: Path, home: Path) -> None:
        super().__init__(cwd, home)
        self.watches = WorktreeWatchers()
        self.gates = OpenGates(watches=self.watches)

    def send(self, event: str, **fields: Any) -> HookReply:
        kind = {"PreToolUse": "pre", "PostToolUse": "post"}.get(event, "note")
        frame = HookFrame(
            "claude-code", str(self.cwd), "pre" if kind == "pre" else "post" if kind == "post" else "note"
        )
        return answer(self.payload(event, **fields), frame, self.environment, self.gates)

    @property
    def watch(self) -> WorktreeWatcher:
        return self.watches.find_watcher(workspace_at(self.cwd, self.cwd))

    def watching(self) -> None:
        """Wait until it watches, and has looked at everything once."""

        def has_looked() -> bool:
            self.shell("python3 -c 'pass'")
            return not self.watch.status.why

        wait_until(has_looked, lambda: self.watch.status)


@pytest.fixture
def agent(repository: Path, home: Path) -> Iterator[Warm]:
    governed(repository)
    config = repository / ".orchestration" / "remit.toml"
    config.write_text(config.read_text() + '[containment]\nrewrite = "off"\n')
    found = Warm(repository, home)
    found.select()
    found.watching()
    yield found
    found.watch.close()


SHELL: list[tuple[str, dict[str, str]]] = [
    ("python3 -c \"open('src/new.py','w').write('x')\"", {"src/new.py": "create"}),
    ("sh -c 'echo more >> src/app.py'", {"src/app.py": "modify"}),
    ("sh -c 'rm src/app.py'", {"src/app.py": "delete"}),
    ("sh -c 'mkdir -p src/deep/er && echo 1 > src/deep/er/a'", {"src/deep/er/a": "create"}),
    ("sh -c 'mv src/app.py src/moved.py'", {"src/app.py": "delete", "src/moved.py": "create"}),
    ("sh -c 'echo x > src/new.py && git add -A src && git commit -qm two'", {"src/new.py": "create"}),
]


@pytest.mark.parametrize(("command", "expected"), SHELL, ids=[c for c, _ in SHELL])
def test_what_a_command_changed_is_recorded(agent: Warm, command: str, expected: dict[str, str]) -> None:
    agent.shell(command)
    assert effects(agent.cwd) == expected
    again = len(records(agent.cwd, "mutation"))
    agent.shell("python3 -c 'pass'")
    assert len(records(agent.cwd, "mutation")) == again
    assert records(agent.cwd, "human_edit") == []


def test_what_is_out_of_scope_is_undone(agent: Warm) -> None:
    found = agent.shell("python3 -c \"open('stray','w'); open('README.md','a').write('y')\"")
    assert not (agent.cwd / "stray").exists()
    assert (agent.cwd / "README.md").read_text() == "# Example\n"
    assert "was undone" in found["after"]["additionalContext"]
    assert agent.watch.status.why == ""
    agent.shell("python3 -c 'pass'")
    assert records(agent.cwd, "human_edit") == []


def test_what_the_watcher_cannot_see_is_found_at_the_end_of_the_turn(agent: Warm, tmp_path: Path) -> None:
    """A write through a name outside of the folder, which the kernel tells nobody."""
    agent.shell(f"sh -c 'ln src/app.py {tmp_path}/other; echo hidden >> {tmp_path}/other'")
    assert records(agent.cwd, "mutation") == []
    agent.send("Stop")
    assert [f["path"] for r in records(agent.cwd, "human_edit") for f in body(r)["files"]] == ["src/app.py"]


def test_doctor_tells_whether_it_watches(agent: Warm, home: Path) -> None:
    gate = Gate.open(agent.cwd, machine(home))
    gate.observer = agent.watch
    report_watching(gate)
    said = CliRunner().invoke(doctor, ["--repo", str(agent.cwd)]).output
    assert "only what changes is looked at" in said
    (agent.cwd / ".gitignore").write_text("*.log\n")
    assert agent.watch.dirty_set
    agent.watch.dirty_set.watched_tree.read_events()
    report_watching(gate)
    gate.close()
    said = CliRunner().invoke(doctor, ["--repo", str(agent.cwd)]).output
    assert "looks at everything" in said
