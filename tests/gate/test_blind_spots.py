"""Ways to change a file so that nobody looks, and ways to make git run something: each is seen, or refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import run_git
from gate.driving import Agent, allowed, body, effects, governed, machine, records, refusal, said
from remit.core.diff.contents import hash_git_blob
from remit.gate.gate import Gate
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.contents.fold import fold_into_git


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    """An agent with an intent, in a repository that enforces."""
    found = Agent(governed(repository), home)
    found.select()
    return found


def store_of(agent: Agent) -> ContentStore:
    """The contents that are kept."""
    return Gate.open(agent.cwd, machine(agent.home)).contents


def append(path: str, text: str = "x") -> str:
    """A command that adds a line to a file, which its text does not tell."""
    return f"python3 -c \"open('{path}', 'a').write('{text}' + chr(10))\""


def remarks(agent: Agent) -> list[str]:
    """What the newest comparison says of itself."""
    return body(records(agent.cwd, "tool_result")[-1]).get("observation", [])


# -- hiding a change ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_a_change_under_a_flag_of_the_index_is_seen(agent: Agent, flag: str) -> None:
    run_git(agent.cwd, "update-index", flag, "README.md")
    agent.shell(append("README.md"))
    assert effects(agent.cwd) == {"README.md": "modify"}
    assert remarks(agent) == ["observed, though git is told to overlook it: README.md"]
    agent.shell("python3 -c \"import os; os.unlink('README.md')\"")
    assert effects(agent.cwd) == {"README.md": "delete"}


def test_a_flag_and_a_change_in_one_command_are_seen(agent: Agent) -> None:
    agent.shell(f"f=--assume-unchanged; git update-index $f README.md; {append('README.md')}")
    assert effects(agent.cwd) == {"README.md": "modify"}


@pytest.mark.parametrize(
    "command",
    [
        "git update-index --assume-unchanged README.md",
        "cd src && git -C .. update-index --skip-worktree README.md",
        "git update-index --skip README.md",
        "git push --mirror origin",
        "git push origin '+refs/*:refs/*'",
        "git push origin refs/remit/blobs/x",
    ],
)
def test_hiding_and_publishing_by_command_are_refused(agent: Agent, command: str) -> None:
    assert refusal(agent.ask("Bash", command=command)) == "COMMAND_BLOCKED"


@pytest.mark.parametrize(
    "command", ["git update-index --refresh", "git push --all", "git push origin main", "git push --tags", "git add x"]
)
def test_the_like_of_them_are_not(agent: Agent, command: str) -> None:
    assert refusal(agent.ask("Bash", command=command)) != "COMMAND_BLOCKED"


def test_a_file_that_a_private_pattern_hides_is_seen_and_its_content_not_kept(agent: Agent) -> None:
    with (agent.cwd / ".git" / "info" / "exclude").open("a") as patterns:
        patterns.write("*.log\n")
    agent.shell(append("a.log", "hidden"))
    assert effects(agent.cwd) == {"a.log": "create"}
    agent.shell(append("a.log", "again"))
    assert effects(agent.cwd) == {"a.log": "modify"}
    assert store_of(agent).load(hash_git_blob(b"hidden\nagain\n")) is None


def test_a_pattern_file_that_the_settings_name_hides_nothing(agent: Agent) -> None:
    (agent.cwd / ".git" / "mine").write_text("*.log\n")
    run_git(agent.cwd, "config", "core.excludesFile", ".git/mine")
    agent.shell(append("a.log"))
    assert effects(agent.cwd) == {"a.log": "create"}


def test_settings_that_make_git_look_elsewhere_are_told(agent: Agent, tmp_path: Path) -> None:
    run_git(agent.cwd, "config", "core.worktree", str(tmp_path / "elsewhere"))
    assert not allowed(agent.ask("Bash", command="make"))


def test_a_repository_inside_and_a_link_out_are_named(agent: Agent, tmp_path: Path) -> None:
    agent.shell(f"git init -q src/inner && echo x > src/inner/f && ln -s {tmp_path} src/out && ln -s src near")
    assert remarks(agent) == [
        "not observed: nested repository src/inner",
        "not observed: link to a folder outside, src/out",
    ]
    assert refusal(agent.write("src/out/x", "x")) == "OUTSIDE_WORKSPACE"
    assert refusal(agent.write("near/../docs/x", "x")) == "SCOPE_VIOLATION"
    assert allowed(agent.write("src/inner/g", "x")), "the workspace around it governs"


# -- programs that git would run ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("core.fsmonitor", "./evil"),
        ("core.pager", "./evil"),
        ("pager.log", "./evil"),
        ("diff.external", "./evil"),
        ("diff.x.textconv", "./evil"),
        ("diff.x.command", "./evil"),
        ("filter.x.clean", "./evil"),
        ("filter.x.process", "./evil"),
        ("remote.origin.promisor", "true"),
    ],
)
def test_a_reading_command_is_no_longer_proved_where_settings_name_a_program(
    repository: Path, home: Path, key: str, value: str
) -> None:
    agent = Agent(governed(repository), home)
    assert allowed(agent.ask("Bash", command="git status"))
    run_git(repository, "config", key, value)
    assert refusal(agent.ask("Bash", command="git status")) == "MISSING_OR_INVALID_INTENT"
    assert allowed(agent.ask("Bash", command="ls"))


@pytest.mark.parametrize(("key", "value"), [("core.fsmonitor", "true"), ("pager.log", "false"), ("user.name", "x")])
def test_harmless_settings_spoil_no_proof(repository: Path, home: Path, key: str, value: str) -> None:
    run_git(repository, "config", key, value)
    assert allowed(Agent(governed(repository), home).ask("Bash", command="git log"))


def test_settings_that_are_included_count_too(repository: Path, home: Path) -> None:
    (repository / ".git" / "more").write_text("[core]\n\tfsmonitor = ./evil\n")
    run_git(repository, "config", "include.path", "more")
    assert not allowed(Agent(governed(repository), home).ask("Bash", command="git status"))


def test_a_hook_that_reading_starts_spoils_the_proof(repository: Path, home: Path) -> None:
    (repository / ".git" / "hooks").mkdir(exist_ok=True)
    (repository / ".git" / "hooks" / "post-index-change").write_text("#!/bin/sh\n")
    assert not allowed(Agent(governed(repository), home).ask("Bash", command="git status"))


def test_a_bare_repository_that_the_agent_stands_in_spoils_the_proof(agent: Agent) -> None:
    bare = agent.cwd / "src" / "bare"
    run_git(agent.cwd, "init", "-q", "--bare", str(bare))
    run_git(bare, "config", "core.pager", "./evil")
    stranger = Agent(bare, agent.home, "session-2")
    assert not allowed(stranger.ask("Bash", command="git log"))


# -- secrets ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [".env", ".env.local", "server.pem", "id_rsa", ".npmrc", "config/secrets.yml"])
def test_the_content_of_a_file_that_holds_secrets_is_hashed_and_not_kept(agent: Agent, name: str) -> None:
    agent.write(f"src/{name}", "KEY=s3cr3tpw\n")
    agent.shell(f"echo KEY=other > src/{name}")
    agent.read(f"src/{name}")
    assert effects(agent.cwd) == {f"src/{name}": "modify"}
    assert [store_of(agent).load(hash_git_blob(text)) for text in (b"KEY=s3cr3tpw\n", b"KEY=other\n")] == [None, None]


def test_what_git_ignores_never_becomes_one_of_its_objects(agent: Agent) -> None:
    (agent.cwd / ".gitignore").write_text("*.local\n")
    agent.write("src/a.local", "ignored\n")
    agent.write("src/a.py", "plain\n")
    kept = store_of(agent)
    assert fold_into_git(kept)
    assert not fold_into_git(kept)
    listed = ("cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
    objects = run_git(agent.cwd / ".git/remit/objects.git", *listed).split()
    assert hash_git_blob(b"plain\n") in objects
    assert hash_git_blob(b"ignored\n") not in [*objects, *run_git(agent.cwd, *listed).split()]
    assert kept.load(hash_git_blob(b"ignored\n")) == b"ignored\n", "it stays a file of Remit's own"
    agent.write("src/b.py", "ignored\n")
    assert fold_into_git(kept), "the same content where git sees it"


# -- standing elsewhere -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "rm {root}/README.md",
        "cd {root} && make",
        "git -C {root} commit -m x",
        "sh -c 'rm {root}/README.md'",
        "make --directory={root}",
        "echo x > {root}/README.md",
        "cd ../repo; make",
        "cp x ~/link/README.md",
    ],
)
def test_a_command_from_elsewhere_is_judged_by_the_workspace_that_it_names(
    repository: Path, home: Path, tmp_path: Path, command: str
) -> None:
    governed(repository)
    (home / "link").symlink_to(repository)
    away = tmp_path / "away"
    away.mkdir()
    agent = Agent(away, home)
    assert refusal(agent.ask("Bash", command=command.format(root=repository))) == "MISSING_OR_INVALID_INTENT"
    assert allowed(agent.ask("Bash", command="make")), "what names nothing governed is not ours"
    assert allowed(agent.ask("Bash", command=f"cat {repository}/README.md"))


def test_a_command_from_another_governed_workspace_meets_both(agent: Agent, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    run_git(other, "init", "-q")
    governed(other)
    assert refusal(agent.ask("Bash", command=f"touch {other}/x")) == "MISSING_OR_INVALID_INTENT"
    assert [body(r)["call"]["command"] for r in records(other, "denied")] == [f"touch {other}/x"]


def test_an_effect_from_elsewhere_is_recorded_where_it_happened(agent: Agent, tmp_path: Path) -> None:
    governed(agent.cwd, "warn")
    away = Agent(tmp_path / "away", agent.home, agent.session)
    away.cwd.mkdir()
    away.shell(append(f"{agent.cwd}/README.md"))
    assert effects(agent.cwd) == {"README.md": "modify"}


# -- two at a time ------------------------------------------------------------------------------------------


def unclear(root: Path) -> list[tuple[list[str], Any]]:
    """(paths, sessions of the candidates) of each change whose origin is unknown."""
    found = [body(r) for r in records(root, "human_edit")]
    return [([f["path"] for f in b["files"]], [c["session_id"] for c in b.get("candidates", [])]) for b in found]


@pytest.fixture
def second(agent: Agent) -> Agent:
    """Another session in the same workspace."""
    found = Agent(agent.cwd, agent.home, "session-2")
    found.select("INT-001")
    return found


def test_what_two_commands_could_have_done_is_neithers(agent: Agent, second: Agent) -> None:
    one, two = agent.ask("Bash", command="make one"), second.ask("Bash", command="make two")
    (agent.cwd / "src" / "new.py").write_text("x\n")
    agent.tell("Bash", one["call_id"], {"stdout": ""}, command="make one")
    second.tell("Bash", two["call_id"], {"stdout": ""}, command="make two")
    assert records(agent.cwd, "mutation") == []
    assert unclear(agent.cwd) == [(["src/new.py"], ["session-1", "session-2"])]


def test_what_was_there_before_the_other_began_is_the_firsts(agent: Agent, second: Agent) -> None:
    one = agent.ask("Bash", command="make one")
    (agent.cwd / "src" / "new.py").write_text("x\n")
    two = second.ask("Bash", command="make two")
    agent.tell("Bash", one["call_id"], {"stdout": ""}, command="make one")
    second.tell("Bash", two["call_id"], {"stdout": ""}, command="make two")
    assert [body(r)["session_id"] for r in records(agent.cwd, "mutation")] == ["session-1"]
    assert unclear(agent.cwd) == []


def test_what_a_file_tool_wrote_meanwhile_is_not_the_commands(agent: Agent, second: Agent) -> None:
    one = agent.ask("Bash", command="make one")
    second.write("src/new.py", "x\n")
    agent.tell("Bash", one["call_id"], {"stdout": ""}, command="make one")
    assert [body(r)["session_id"] for r in records(agent.cwd, "mutation")] == ["session-2"]
    assert unclear(agent.cwd) == []


def test_what_only_the_text_of_one_names_is_that_ones(agent: Agent, second: Agent) -> None:
    first, other = "echo 1 > src/one.py", "echo 2 > src/two.py"
    one, two = agent.ask("Bash", command=first), second.ask("Bash", command=other)
    (agent.cwd / "src" / "one.py").write_text("1\n")
    (agent.cwd / "src" / "two.py").write_text("2\n")
    second.tell("Bash", two["call_id"], {"stdout": ""}, command=other)
    agent.tell("Bash", one["call_id"], {"stdout": ""}, command=first)
    named = [(body(r)["session_id"], [f["path"] for f in body(r)["files"]]) for r in records(agent.cwd, "mutation")]
    assert named == [("session-2", ["src/two.py"]), ("session-1", ["src/one.py"])]
    assert unclear(agent.cwd) == []


def test_a_command_alone_is_its_own(agent: Agent, second: Agent) -> None:
    second.shell("echo 1 > src/one.py")
    agent.shell("echo 2 > src/two.py")
    assert [body(r)["session_id"] for r in records(agent.cwd, "mutation")] == ["session-2", "session-1"]


# -- Remit's own bookkeeping --------------------------------------------------------------------------------


def test_a_status_that_turns_back_with_a_stash_is_no_change_of_the_agents(repository: Path, home: Path) -> None:
    draft = (
        "active_intents:\n  - id: INT-001\n    owned_scope: ['src/**']\n    constraints: [a]\n"
        "    acceptance_criteria: [b]\n"
    )
    agent = Agent(governed(repository, intents=draft), home)
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "govern")
    agent.select()
    (repository / "src" / "app.py").write_text("changed\n")
    told = agent.shell("git stash -q")["after"]
    assert effects(repository) == {"src/app.py": "modify"}
    assert "active_intents" not in json.dumps(told)


def test_without_an_open_intent_the_next_step_is_to_propose_one(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository, intents="active_intents: []\n"), home)
    reason = agent.write("src/a", "x")["permissionDecisionReason"]
    assert "propose_intent" in reason
    assert "select_active_intent" not in reason
    assert "remit intent new" in reason


def test_a_path_outside_is_refused_with_the_name_of_the_temporary_folder(agent: Agent) -> None:
    (agent.home / "tmp").mkdir(exist_ok=True)
    assert f"temporary folder {agent.home / 'tmp'}" in agent.write("/opt/x", "x")["permissionDecisionReason"]


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ("PostToolUse", {"tool_response": "/bin/bash: line 1: remit: command not found\n"}),
        ("PostToolUse", {"tool_response": {"stdout": "", "stderr": "sh: 1: remit: not found"}}),
        ("PostToolUseFailure", {"error": "Exit code 127\nzsh: command not found: remit"}),
    ],
)
def test_a_shell_that_does_not_find_remit_hears_from_the_hook_what_was_done(
    repository: Path, home: Path, event: str, words: dict[str, Any]
) -> None:
    agent = Agent(governed(repository), home)
    for command, expected in (("remit intent select INT-001", True), ("git status", False), ("remit status", False)):
        call_id = agent.ask("Bash", command=command)["call_id"]
        tool = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": call_id}
        told = str(said(agent.send(event, **tool, **words)))
        assert ("has done what the command says" in told) == expected, told
        assert ('<intent_context intent_id="INT-001">' in told) == expected
