"""What an agent of a plan sees and may write, and that nothing of it outlives its worker."""

import os
import resource
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest

from conftest import run_git
from fleet.test_misbehaving_agents import processes_of
from gate.driving import governed
from processes import fields
from remit.core.agents import ROWS
from remit.gate.machine import Environment
from remit.workspace.place.workspace import locate_workspace
from remit.workspace.sandbox.jail import Jail, find_bubblewrap
from remit.workspace.sandbox.private_git_folder import PrivateGitFolder
from remit.workspace.sandbox.secret_places import SECRET_PLACES
from remit.workspace.worktrees import Worktrees
from remit_fleet.board import AttemptEnd
from remit_fleet.workers.agent import (
    GRACE_S,
    REAPER_KILLED,
    AgentEnd,
    AgentProcess,
    AgentRun,
    AttemptPlaces,
    claim_slot,
    explain_unwired,
    find_links,
    list_tool_paths,
    make_jail,
    prepare_state,
    run_setup,
)
from remit_fleet.workers.attempt_steps import AttemptSteps
from remit_fleet.workers.feed import AgentFeed
from remit_fleet.workers.host import WorkerHost, WorkerSettings
from remit_fleet.workers.network import find_certificates, find_proxy_secrets
from remit_fleet.workers.workplaces import Workplaces
from waiting import wait_until

pytestmark = pytest.mark.skipif(find_bubblewrap() is None, reason="NO JAIL TESTED: there is no bubblewrap here")

SECRETS = (".ssh/id_ed25519", ".aws/credentials", ".gemini/oauth_creds.json", ".local/state/remit/fleet.db")


@pytest.fixture
def places(repository: Path, home: Path) -> AttemptPlaces:
    """Two attempts' worktrees of a repository below HOME, and the first one's places."""
    for name in (*SECRETS, ".claude/settings.json", ".claude/history.jsonl"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("{}")
    (repository / ".env").write_text("KEY=secret\n")
    (repository / ".orchestration").mkdir()
    main = locate_workspace(repository)
    assert main is not None
    trees = Worktrees(main, home / ".local/share/remit/trees/r")
    one, _ = (
        trees.prepare(f"INT-00{number}", 1, run_git(repository, "rev-parse", "HEAD").strip()) for number in (1, 2)
    )
    temporary = home / ".local/share/remit/trees/r/one.tmp"
    temporary.mkdir()
    state = home / ".local/share/remit/trees/r/one.state"
    places = AttemptPlaces(main, one, temporary, state, "remit/INT-001/1")
    prepare_state(places)
    PrivateGitFolder(one).make("INT-001/1")
    return places


def run_agent(places: AttemptPlaces, home: Path, script: str, *, links: Sequence[str] = ()) -> tuple[int | None, str]:
    """Run a shell script as Claude Code's attempt, and return how it ended and what it printed."""
    words = ("sh", "-c", script)
    around = Environment(home=home, temporary=home / "tmp")
    jail = make_jail(places, "claude-code", words, around, os.environ["PATH"], links)
    log = home / "agent.log"
    variables = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(places.temporary)}
    end = AgentProcess(AgentRun(words, variables, jail, log, find_bubblewrap())).wait()
    return end.code, log.read_text()


def test_of_home_an_agent_sees_its_own_settings_and_no_secret(places: AttemptPlaces, home: Path) -> None:
    listed = " ".join(str(home / name) for name in (*SECRETS, ".claude/history.jsonl"))
    _, shown = run_agent(places, home, f"cat {listed} | wc -c; ls -A ~; ls /tmp | grep -v pytest")
    assert shown.splitlines().count("cat: " + f"{home}/.ssh/id_ed25519: No such file or directory") == 1
    assert sum("No such file" in line for line in shown.splitlines()) == 4, "of Remit's state folder there is nothing"
    names = {".claude", ".gitconfig", ".local"}
    assert names <= {*shown.splitlines()}
    assert not {".ssh", ".aws", ".gemini"} & {*shown.splitlines()}


def test_no_attempt_reads_a_secret_place_but_its_own_agents_login(places: AttemptPlaces, home: Path) -> None:
    canary, moved = "canary-b1f4e2", home.parent / f"{home.name}-moved"
    planted = [home / name.replace("*", "x") / "inner" for name in SECRET_PLACES if not name.startswith(".claude/")]
    planted.append(moved / "credentials")
    for path in planted:
        if path.parent.is_file():
            path.parent.unlink()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(canary)
    program = home / ".config/gh/extensions/tool"
    program.parent.mkdir()
    program.write_text("a tool")
    login = home / ".claude/.credentials.json"
    login.write_text("own login")
    around = Environment(
        home, home / "tmp", settings_variables=({"AWS_SHARED_CREDENTIALS_FILE": str(moved / "credentials")},)
    )
    script = f"cat {' '.join(shlex.quote(str(path)) for path in planted)}; grep -r {canary} ~; cat {login} {program}"
    words = ("sh", "-c", script)
    jail = make_jail(places, "claude-code", words, around, f"{os.environ['PATH']}:{program.parent}")
    variables = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(places.temporary)}
    AgentProcess(AgentRun(words, variables, jail, home / "agent.log", find_bubblewrap())).wait()
    said = (home / "agent.log").read_text()
    assert canary not in said
    assert "own logina tool" in said, "its own agent's login, and a folder of programs"


def test_an_agent_sees_neither_other_attempts_nor_the_main_worktree(places: AttemptPlaces, home: Path) -> None:
    main, trees = places.main.root, places.tree.root.parent
    code, shown = run_agent(places, home, f"ls {trees}; ls -A {main}; cat {main}/.env; cat README.md")
    assert code == 0
    assert sorted(shown.splitlines()) == sorted(
        [
            places.tree.root.name,
            "one.tmp",
            ".git",
            ".orchestration",
            f"cat: {main}/.env: No such file or directory",
            "# Example",
        ]
    )


def test_an_agent_writes_its_worktree_and_its_conversations_and_nothing_that_steers_it(
    places: AttemptPlaces, home: Path
) -> None:
    files = [places.tree.root / "new", home / ".claude/new", home / "new", places.temporary / "new", Path("/tmp/new")]
    files += [
        home / ".claude/settings.json",
        home / ".local/state/remit/key",
        places.main.root / ".git/hooks/pre-commit",
    ]
    script = "; ".join(f"(echo x > {file}) 2>/dev/null && echo {number}" for number, file in enumerate(files))
    _, shown = run_agent(places, home, script)
    assert shown.split() == ["0", "1", "2", "3", "4"]
    assert [file.exists() for file in files[:5]] == [True, True, False, True, False], "what is private vanishes"
    code, shown = run_agent(places, home, "git add -A && git commit -qm mine && git log --oneline | wc -l")
    assert (code, shown.split()) == (0, ["2"])


def test_folders_of_dependencies_are_there_and_read_only(places: AttemptPlaces, home: Path) -> None:
    packages = places.main.root / "node_modules" / "left-pad"
    packages.mkdir(parents=True)
    (packages / "index.js").write_text("pad\n")
    (places.main.root / "vendor").symlink_to("/etc")
    _, shown = run_agent(
        places,
        home,
        "cat node_modules/left-pad/index.js; touch node_modules/x || echo refused; ls vendor src",
        links=("node_modules/", "vendor", "src"),
    )
    assert [line for line in shown.splitlines() if "cannot" not in line] == ["pad", "refused", "src:", "app.py"]
    assert list(find_links(places, ("src", "vendor", "nothing", "node_modules"))) == [places.tree.root / "node_modules"]


def test_a_setup_command_runs_in_the_jail_and_within_its_time(places: AttemptPlaces, home: Path) -> None:
    jail = make_jail(places, "", ("sh",), Environment(home=home, temporary=home / "tmp"), os.environ["PATH"])
    variables = {"PATH": os.environ["PATH"], "HOME": str(home)}
    done = run_setup(("sh", "-c", "echo ready > made; cat ~/.ssh/id_ed25519"), jail, variables, 60)
    assert (done.exit_code, b"No such file" in done.output) == (1, True)
    assert (places.tree.root / "made").read_text() == "ready\n"
    assert run_setup(("sleep", "60"), jail, variables, 0.5).failure == "it was ended after 0.5 s"


def test_an_agent_without_hooks_is_not_started(places: AttemptPlaces, home: Path) -> None:
    command = ROWS["claude-code"].command
    why = explain_unwired("claude-code", command, home, {}, places.tree.root)
    assert why.endswith("`remit init --agent claude-code`")
    (places.tree.root / ".claude").mkdir()
    (places.tree.root / ".claude/settings.local.json").write_text(f'{{"hooks": "{home}/.local/share/remit/bin/hook"}}')
    assert explain_unwired("claude-code", command, home, {}, places.tree.root) == ""
    assert explain_unwired("my-own", command, home, {}, places.tree.root) == ""


def test_every_attempt_on_a_host_has_ports_of_its_own(tmp_path: Path) -> None:
    with claim_slot(tmp_path) as one, claim_slot(tmp_path) as two:
        assert (one, two) == (0, 1)
    with claim_slot(tmp_path) as again:
        assert again == 0


WORKER = """
import os, sys
from pathlib import Path
from remit_fleet.workers.agent import AgentProcess, AgentRun
from remit.workspace.sandbox.jail import Jail
folder, program = Path(sys.argv[1]), sys.argv[2] or None
words = ("sh", "-c", "sleep 711 & (setsid sh -c 'sleep 712 & sleep 713' &) ; echo ready; " + sys.argv[3])
jail = Jail(folder, writable=(folder,))
print(AgentProcess(AgentRun(words, dict(os.environ), jail, folder / "log", program)).wait().code, flush=True)
"""


@pytest.mark.parametrize("program", [find_bubblewrap() or "", ""], ids=["bubblewrap", "reaper"])
@pytest.mark.parametrize("ends", ["the worker is killed", "the agent ends"])
def test_nothing_that_an_agent_started_outlives_it_or_its_worker(
    program: str, ends: str, tmp_path: Path, home: Path
) -> None:
    last = "exit 7" if ends == "the agent ends" else "sleep 714"
    words = [sys.executable, "-c", WORKER, str(tmp_path), program, last]
    worker = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    wait_until(lambda: (tmp_path / "log").exists() and "ready" in (tmp_path / "log").read_text())
    if ends == "the worker is killed":
        wait_until(lambda: len(processes_of(home, "sleep 71")) >= 3)
        worker.send_signal(signal.SIGKILL)
    said, _ = worker.communicate(timeout=60)
    assert said.split() == ([] if ends == "the worker is killed" else ["7"])
    wait_until(lambda: processes_of(home, "sleep 71") == [])


def test_what_has_the_workers_own_temporary_folder_is_left_alone(tmp_path: Path) -> None:
    variables = {**os.environ, "TMPDIR": str(tmp_path)}
    other = subprocess.Popen(["sleep", "715"], env=variables)
    try:
        words = [sys.executable, "-c", WORKER, str(tmp_path), "", "exit 7"]
        done = subprocess.run(words, env=variables, capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["7"]
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_worker_with_many_open_files_waits_for_the_end_of_a_jail(places: AttemptPlaces, home: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 2048), hard), hard))
    held = [os.dup(0) for _ in range(1100)]
    try:
        assert run_agent(places, home, "echo done") == (0, "done\n")
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class SlowFeed(AgentFeed):
    """A feed on a machine that is too busy to read at once."""

    def read_output(self, stream: BinaryIO) -> None:
        time.sleep(GRACE_S + 0.5)
        super().read_output(stream)


def test_the_last_line_of_an_agent_counts_however_late_it_is_read(places: AttemptPlaces, home: Path) -> None:
    words = ("echo", '{"type": "result", "total_cost_usd": 1.5}')
    jail = make_jail(places, "", words, Environment(home=home, temporary=home / "tmp"), os.environ["PATH"])
    variables = {"PATH": os.environ["PATH"], "HOME": str(home)}
    process = AgentProcess(AgentRun(words, variables, jail, home / "agent.log", find_bubblewrap()))
    process.feed = SlowFeed(home / "agent.log")
    process.wait()
    assert process.feed.usage.usd == 1.5


KILLER = """
import os, signal, subprocess, sys
one, two, three = sys.argv[1:]
child = subprocess.Popen(["setsid", "sh", "-c", f"{one} & {two}"])
hidden = subprocess.Popen(["env", "-i", "setsid", "-f", *three.split()])
open("seen").read()
os.kill(os.getppid(), signal.SIGKILL)
signal.pause()
"""


@pytest.mark.system
def test_an_agent_that_ends_its_reaper_is_ended_with_all_it_started(tmp_path: Path, home: Path) -> None:
    jail = Jail(tmp_path, writable=(tmp_path,))
    variables = {**os.environ, "TMPDIR": str(tmp_path / "own")}
    started = {f"sleep {seconds}.{os.getpid()}" for seconds in (721, 722, 723)}  # of this test alone
    counts: list[int] = []
    seen = threading.Event()
    os.mkfifo(tmp_path / "seen")

    def list_left() -> set[str]:
        return started & {" ".join(fields(pid / "cmdline")).strip() for pid in Path("/proc").glob("[0-9]*")}

    def report(_: AgentFeed) -> None:
        counts.append(len(list_left()))
        if counts[-2:] == [3, 3] and not seen.is_set():  # the worker has looked in between
            seen.set()
            (tmp_path / "seen").write_text("go")

    process = AgentProcess(
        AgentRun((sys.executable, "-c", KILLER, *sorted(started)), variables, jail, tmp_path / "log")
    )
    end = process.wait(report)
    assert end.why == REAPER_KILLED
    assert list_left() == set()


def test_a_proxy_and_its_certificates_come_into_the_jail_and_its_password_into_no_log(
    places: AttemptPlaces, home: Path
) -> None:
    (home / "company.pem").write_text("CERTIFICATE\n")
    known = {"HTTPS_PROXY": "http://me:geheim%21x@proxy:3128", "SSL_CERT_FILE": str(home / "company.pem")}
    words = ("sh", "-c", "cat $SSL_CERT_FILE; echo $HTTPS_PROXY; echo 'geheim!x'")
    around = Environment(home=home, temporary=home / "tmp")
    jail = make_jail(places, "", words, around, os.environ["PATH"], (), find_certificates(known))
    variables = {"PATH": os.environ["PATH"], "HOME": str(home), **known}
    process = AgentProcess(AgentRun(words, variables, jail, home / "agent.log", find_bubblewrap()))
    process.wait()
    assert (home / "agent.log").read_text().splitlines() == [
        "CERTIFICATE",
        "http://[redacted]@proxy:3128",
        "[redacted]",
    ]
    assert "geheim" not in process.feed.tail


@pytest.mark.parametrize(
    ("address", "secrets"),
    [
        ("http://me:geheim%21x@proxy:3128", ("me:geheim%21x", "geheim%21x", "geheim!x")),
        ("me:12345@proxy:3128", ("me:12345",)),
        ("http://token@proxy", ("token",)),
        ("http://proxy:3128", ()),
        ("http://[broken", ()),
        ("", ()),
    ],
)
def test_of_a_proxy_the_user_and_the_password_are_secret(address: str, secrets: tuple[str, ...]) -> None:
    assert find_proxy_secrets({"https_proxy": address}) == secrets


def test_where_a_jail_is_required_no_agent_starts_without(repository: Path, home: Path) -> None:
    governed(repository)
    with (repository / ".orchestration/remit.toml").open("a") as settings:
        settings.write('\n[orchestrator]\njail = "require"\n')
    around = Environment(home=home, temporary=home / "tmp")
    settings = WorkerSettings(1, {}, {}, home, around, clones={"r": repository})
    host = WorkerHost(cast(Any, None), settings, threading.Event())
    steps = AttemptSteps(host, Workplaces(host))
    assert not steps.is_jail_missing("r")
    steps.bubblewrap = None
    assert steps.is_jail_missing("r")


def test_an_agent_that_is_cancelled_before_its_start_is_not_started(tmp_path: Path) -> None:
    words = ("touch", str(tmp_path / "made"))
    process = AgentProcess(AgentRun(words, {}, Jail(tmp_path), tmp_path / "log", None))
    process.cancel(AttemptEnd.LOST, "its worker was stopped")
    assert process.wait() == AgentEnd(None, AttemptEnd.LOST, "its worker was stopped")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("package", ["remit", "remit_hook", "remit_agent", "remit_fleet"])
def test_the_jail_shows_each_package_of_a_checkout_in_the_home(package: str) -> None:
    spec = find_spec(package)
    assert spec is not None
    assert Path(str(spec.origin)).resolve().parent in list_tool_paths(("true",), "/usr/bin")
