"""Rules in a clone's commits are announced where they do not hold, and adopted by a person, once by remote or path."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import run_git
from gate.driving import INTENTS, Agent, allowed, machine, refusal, said
from remit.core.adoption import AdoptSettings, normalise_remote
from remit.core.machine_paths import CONFIG_PATH
from remit.gate.gate import Gate
from remit.gate.governing.settings import IGNORED_FILES
from remit.gate.people.adoption import adopt_workspace, decline_rules, find_carried_rules, read_adoption
from remit.workspace.place.workspace import Workspace, locate_workspace

NOTICE = (
    "Remit: this repository carries Remit rules (enforce). They do not hold in this clone. "
    "Tell the person: `remit adopt`, or `remit adopt --never`."
)


def locate(root: Path) -> Workspace:
    workspace = locate_workspace(root)
    assert workspace is not None
    return workspace


def carry(root: Path, content: str = 'mode = "enforce"\n', intents: str = INTENTS) -> None:
    """Commit rules as a colleague's machine would have; nothing governs here."""
    (root / ".orchestration").mkdir()
    (root / ".orchestration/remit.toml").write_text(content)
    (root / ".orchestration/active_intents.yaml").write_text(intents)
    (root / ".orchestration/.gitignore").write_bytes(IGNORED_FILES)
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "rules")


@pytest.fixture
def upstream(repository: Path) -> Path:
    carry(repository)
    return repository


def clone(upstream: Path, target: Path, *words: str) -> Path:
    run_git(upstream.parent, "clone", "-q", *words, str(upstream), str(target))
    return target


def make_clone(upstream: Path, tmp_path: Path) -> tuple[Path, Path]:
    root = clone(upstream, tmp_path / "c")
    return root, root


def make_worktree(upstream: Path, tmp_path: Path) -> tuple[Path, Path]:
    base = clone(upstream, tmp_path / "base")
    run_git(base, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    return tmp_path / "side", tmp_path / "side"


def make_bare_hub(upstream: Path, tmp_path: Path) -> tuple[Path, Path]:
    hub = clone(upstream, tmp_path / "hub.git", "--bare")
    run_git(hub, "worktree", "add", "-q", str(tmp_path / "hubtree"), "main")
    return tmp_path / "hubtree", tmp_path / "hubtree"


def make_subfolder(upstream: Path, tmp_path: Path) -> tuple[Path, Path]:
    root = clone(upstream, tmp_path / "c")
    return root, root / "src"


def make_nested(upstream: Path, tmp_path: Path) -> tuple[Path, Path]:
    outer = tmp_path / "outer"
    outer.mkdir()
    run_git(outer, "init", "-q")
    root = clone(upstream, outer / "vendor")
    return root, root


def make_sparse(upstream: Path, tmp_path: Path) -> tuple[Path, Path]:
    root = clone(upstream, tmp_path / "c", "--sparse")
    run_git(root, "sparse-checkout", "set", "--no-cone", "/src/")
    assert not (root / ".orchestration").exists()
    return root, root


def make_monorepo(upstream: Path, tmp_path: Path) -> tuple[Path, Path]:
    root = tmp_path / "mono"
    shutil.copytree(upstream / ".orchestration", root / "team/.orchestration")
    run_git(root, "init", "-q")
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "rules")
    return root / "team", root / "team"


def make_separate(upstream: Path, tmp_path: Path) -> tuple[Path, Path]:
    root = clone(upstream, tmp_path / "c", "--separate-git-dir", str(tmp_path / "elsewhere.git"))
    return root, root


def make_shallow(upstream: Path, tmp_path: Path) -> tuple[Path, Path]:
    root = tmp_path / "c"
    run_git(tmp_path, "clone", "-q", "--depth", "1", f"file://{upstream}", str(root))
    return root, root


DOORS: dict[str, Callable[[Path, Path], tuple[Path, Path]]] = {
    "clone": make_clone,
    "subfolder": make_subfolder,
    "worktree": make_worktree,
    "bare hub": make_bare_hub,
    "below another repository": make_nested,
    "sparse": make_sparse,
    "part of a repository": make_monorepo,
    "separate git folder": make_separate,
    "shallow": make_shallow,
}


def begin(agent: Agent) -> str:
    return said(agent.send("SessionStart", source="startup")).get("additionalContext", "")


QUICK_DOORS = ("clone", "worktree", "sparse")
"""The other doors are tried by the live tests, here and below."""


@pytest.mark.parametrize(
    "door", [door if door in QUICK_DOORS else pytest.param(door, marks=pytest.mark.live) for door in DOORS]
)
def test_a_session_is_told_that_the_rules_do_not_hold_and_once_adopted_they_do(
    door: str, upstream: Path, tmp_path: Path, home: Path
) -> None:
    root, cwd = DOORS[door](upstream, tmp_path)
    agent = Agent(cwd, home)
    assert begin(agent) == NOTICE
    assert allowed(agent.ask("Write", file_path=str(root / "src/x.py"), content="x"))
    told = agent.send("Stop").stdout.decode()
    before = run_git(root, "status", "--porcelain")
    adopt_workspace(home, locate(root))
    assert refusal(agent.ask("Write", file_path=str(root / "src/x.py"), content="x")) == "MISSING_OR_INVALID_INTENT"
    assert "<remit_protocol" in begin(Agent(cwd, home, session="two"))
    assert run_git(root, "status", "--porcelain") == before or door == "sparse"
    assert NOTICE.removeprefix("Remit: ")[:40] in told


@pytest.mark.parametrize(
    ("door", "first"),
    [
        ("worktree", "Write"),
        ("part of a repository", "Write"),
        ("clone", "SessionStart"),
        ("clone", "Bash"),
        *(
            pytest.param(door, first, marks=pytest.mark.live)
            for door in DOORS
            for first in ("Write", "Bash")
            if door not in ("sparse", "clone")
        ),
    ],
)
def test_a_clone_that_a_pattern_covers_is_governed_at_the_first_call(
    door: str, first: str, upstream: Path, tmp_path: Path, home: Path
) -> None:
    root, cwd = DOORS[door](upstream, tmp_path)
    write_settings(home, f'[adopt]\npaths = ["{tmp_path}/**"]\n')
    agent = Agent(cwd, home)
    if first == "SessionStart":
        text = begin(agent)
        assert text.startswith(f"Remit adopted this clone ({tmp_path}/**)")
        assert "<remit_protocol" in text
    command = f"cd {root} && touch src/x.py"
    call = {"command": command} if first == "Bash" else {"file_path": str(root / "src/x.py"), "content": "x"}
    assert refusal(agent.ask("Bash" if first == "Bash" else "Write", **call)) == "MISSING_OR_INVALID_INTENT"
    assert read_adoption(locate(root)) == f"{tmp_path}/**"


def write_settings(home: Path, text: str, mode: int = 0o600) -> None:
    (home / CONFIG_PATH).parent.mkdir(parents=True, exist_ok=True)
    (home / CONFIG_PATH).write_text(text)
    (home / CONFIG_PATH).chmod(mode)


def test_a_call_from_elsewhere_that_names_the_clone_is_governed_as_well(
    upstream: Path, tmp_path: Path, home: Path
) -> None:
    root = clone(upstream, tmp_path / "c")
    write_settings(home, f'[adopt]\npaths = ["{root}"]\n')
    assert not allowed(Agent(home, home).ask("Write", file_path=str(root / "src/x.py"), content="x"))
    other = clone(upstream, tmp_path / "d")
    write_settings(home, f'[adopt]\npaths = ["{other}"]\n')
    assert not allowed(Agent(home, home).ask("Bash", command=f"sed -i s/1/2/ {other}/src/app.py"))


@pytest.mark.parametrize(
    ("settings", "effect"),
    [
        ("", "allow"),
        ('otherwise = "tell"', "allow"),
        ('otherwise = "ask"', "ask"),
        ('otherwise = "refuse"', "deny"),
        ('otherwise = "maybe"', "deny"),
        ("remotes = 3", "deny"),
        ('further = "x"', "deny"),
    ],
)
def test_what_happens_elsewhere_is_the_persons_word_and_a_broken_word_refuses(
    settings: str, effect: str, upstream: Path, home: Path
) -> None:
    write_settings(home, f"[adopt]\n{settings}\n")
    agent = Agent(upstream, home)
    assert begin(agent) == NOTICE
    assert agent.ask("Write", file_path="src/x.py", content="x").get("permissionDecision", "allow") == effect
    assert agent.ask("Bash", command="make x").get("permissionDecision", "allow") == effect
    assert allowed(agent.ask("Read", file_path="src/app.py"))
    assert allowed(agent.ask("Bash", command="git status"))
    decline_rules(home, locate(upstream))
    assert begin(agent) == ""
    assert allowed(agent.ask("Write", file_path="src/x.py", content="x"))


def test_settings_that_others_can_write_adopt_nothing_and_refuse(upstream: Path, home: Path) -> None:
    write_settings(home, '[adopt]\npaths = ["/**"]\n', 0o666)
    agent = Agent(upstream, home)
    reason = agent.ask("Write", file_path="src/x.py", content="x").get("permissionDecisionReason", "")
    assert "can be written by others" in reason
    assert not locate(upstream).is_governed


@pytest.mark.parametrize(
    ("content", "mode"),
    [
        ('mode = "observe"\n', "observe"),
        ('mode = "warn"\n', "warn"),
        ("", "enforce"),
        ("mode = 3", "enforce"),
        ('mode = "enforce"\nother = "<b>do this</b>"\n', "enforce"),
    ],
)
def test_the_notice_holds_nothing_of_the_repositorys_text(
    content: str, mode: str, repository: Path, home: Path
) -> None:
    carry(repository, content, INTENTS.replace("Names", "Do as I say"))
    assert begin(Agent(repository, home)) == NOTICE.replace("enforce", mode)


def make_untracked(root: Path) -> None:
    (root / ".orchestration").mkdir()
    (root / ".orchestration/remit.toml").write_text('mode = "enforce"\n')


@pytest.mark.parametrize("kind", ["nothing", "untracked", "another file", "no commit"])
def test_without_committed_rules_nobody_is_told(kind: str, repository: Path, home: Path, tmp_path: Path) -> None:
    root = repository
    if kind == "untracked":
        make_untracked(root)
    elif kind == "another file":
        (root / ".orchestration").mkdir()
        (root / ".orchestration/NOTES.md").write_text("x")
        run_git(root, "add", "-A")
        run_git(root, "commit", "-qm", "x")
    elif kind == "no commit":
        root = tmp_path / "fresh"
        root.mkdir()
        run_git(root, "init", "-q")
        make_untracked(root)
    assert begin(Agent(root, home)) == ""
    assert find_carried_rules(locate_workspace(root)) is None
    assert Agent(root, home).send("Stop").stdout == b""


def test_the_person_is_told_once_a_session(upstream: Path, home: Path) -> None:
    agent = Agent(upstream, home)
    assert b"They do not hold in this clone" in agent.send("Stop").stdout
    assert agent.send("Stop").stdout == b""
    assert b"They do not hold" in Agent(upstream, home, session="two").send("Stop").stdout


@pytest.mark.parametrize(
    ("address", "normal"),
    [
        ("https://github.com/acme/shop.git", "github.com/acme/shop"),
        ("https://user:token@GitHub.com:443/acme/shop/", "github.com/acme/shop"),
        ("git@github.com:acme/shop.git", "github.com/acme/shop"),
        ("github.com:acme/shop", "github.com/acme/shop"),
        ("ssh://git@github.com:22/acme/shop.git", "github.com/acme/shop"),
        ("git://github.com/acme//shop", "github.com/acme/shop"),
        ("https://github.com/other/../acme/shop", "github.com/acme/shop"),
        ("file:///srv/git/shop.git", "/srv/git/shop"),
        ("/srv/git/shop.git", "/srv/git/shop"),
        ("../hub/shop.git", "/srv/hub/shop"),
        ("https://[bad/x", ""),
        ("https://github.com/", ""),
        ("", ""),
    ],
)
def test_a_remote_has_one_name_however_it_is_spelled(address: str, normal: str) -> None:
    assert normalise_remote(address, "/srv/clone") == normal


@pytest.mark.parametrize(
    ("pattern", "remote", "covered"),
    [
        ("github.com/acme/*", "github.com/acme/shop", True),
        ("github.com/ACME/shop", "github.com/acme/Shop", True),
        ("github.com/acme/*", "github.com/acme/shop/deeper", False),
        ("github.com/acme/*", "github.com.evil.org/acme/shop", False),
        ("github.com/acme/*", "github.com/acme", False),
        ("github.com/acme/**", "github.com/acme/shop/deeper", True),
        ("github.com/a.me/*", "github.com/acme/shop", False),
        ("github.com/acme/*", "", False),
        ("*", "", False),
    ],
)
def test_a_star_stays_in_one_part(pattern: str, remote: str, covered: bool) -> None:
    assert bool(AdoptSettings(remotes=(pattern,)).find_pattern(remote, "/x", "/home/p")) is covered


@pytest.mark.parametrize(
    ("pattern", "covered"),
    [("~/work/**", True), ("~**", True), ("~/work/*", False), ("/home/p/work/a/b", True), ("/home/p", False)],
)
def test_a_path_pattern_begins_at_home_or_the_root(pattern: str, covered: bool) -> None:
    assert bool(AdoptSettings(paths=(pattern,)).find_pattern("", "/home/p/work/a/b", "/home/p")) is covered


def test_a_remote_pattern_covers_a_clone_by_origin_alone(upstream: Path, tmp_path: Path, home: Path) -> None:
    root = clone(upstream, tmp_path / "c")
    write_settings(home, '[adopt]\nremotes = ["github.com/acme/*"]\n')
    run_git(root, "remote", "add", "other", "git@github.com:acme/shop.git")
    assert begin(Agent(root, home)) == NOTICE
    run_git(root, "remote", "set-url", "origin", "git@github.com:acme/shop.git")
    assert begin(Agent(root, home)).startswith("Remit adopted this clone (github.com/acme/*)")
    # Another clone of the same remote, and its worktree.
    second = clone(upstream, tmp_path / "d")
    run_git(second, "remote", "set-url", "origin", "https://github.com/acme/shop")
    run_git(second, "worktree", "add", "-q", "-b", "w", str(tmp_path / "w"))
    assert not allowed(Agent(tmp_path / "w", home).ask("Write", file_path=str(tmp_path / "w/src/x.py"), content="x"))


def test_what_a_stranger_brings_runs_nothing_before_trust(repository: Path, home: Path) -> None:
    carry(repository, 'mode = "enforce"\n[[hooks]]\non = "before"\ncommand = "touch /tmp/never"\n')
    adopt_workspace(home, locate(repository))
    gate = Gate(locate(repository), machine(home))
    assert [item.kind for item in gate.untrusted_commands] == ["hook"]


def test_a_declined_clone_is_adopted_by_no_pattern(upstream: Path, home: Path) -> None:
    workspace: Workspace = locate(upstream)
    decline_rules(home, workspace)
    write_settings(home, '[adopt]\npaths = ["/**"]\n')
    assert begin(Agent(upstream, home)) == ""
    assert not workspace.is_governed
