"""What git ignores is kept and counted, and nothing is smuggled in that way."""

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import run_git
from gate.containment.test_rewrite_call import python, run
from gate.driving import Agent, allowed, body, governed, overlay, records, refusal, run_shell, uncontained
from gate.hooks.trusted_hooks import trust_all
from remit.core.diff.contents import sha256
from remit.gate.gate import Gate

RULES = """\
node_modules/
.venv/
/dist/
/build/
*.log
__pycache__/
*.py[cod]
.pytest_cache/
.vscode/
.env
.envrc
local_settings.ini
*.so
"""


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    (repository / ".gitignore").write_text(RULES)
    (repository / "docs").mkdir()
    (repository / "docs" / "page.md").write_text("page\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "rules")
    overlay(home)
    governed(repository)
    (home / "tmp").mkdir(exist_ok=True)
    found = Agent(repository, home)
    found.select()
    return found


def write_files(files: dict[str, str]) -> str:
    return python(
        "import os, json\n"
        f"for p, c in json.loads({json.dumps(json.dumps(files))}).items():\n"
        "    os.makedirs(os.path.dirname(p) or '.', exist_ok=True); open(p, 'w').write(c)"
    )


def generated(root: Path) -> list[dict[str, Any]]:
    return [body(record)["generated"] for record in records(root, "generated")]


def test_what_git_ignores_is_kept_in_and_out_of_scope_and_counted_once(agent: Agent) -> None:
    files = {f"node_modules/p{n}/index.js": "x" for n in range(30)} | {
        "src/__pycache__/app.cpython-311.pyc": "code",
        "src/build.log": "log",
        "dist/out.js": "out",
        "run.log": "log",
        "src/new.py": "a = 1\n",
    }
    _, done = run(agent, write_files(files))
    assert (done.returncode, done.stderr) == (0, "")
    assert all((agent.cwd / path).read_text() == content for path, content in files.items())
    [mutation] = records(agent.cwd, "mutation")
    assert [f["path"] for f in body(mutation)["files"]] == ["src/new.py"]
    [counted] = generated(agent.cwd)
    assert (counted["files"], counted["deleted"], counted["bytes"]) == (34, 0, 30 + 4 + 3 + 3 + 3)
    assert counted["folders"]["node_modules"] == 30
    assert counted["digest"].startswith("sha256:")
    listing = Gate.open(agent.cwd).contents.load(counted["listing"])
    assert listing is not None
    assert len(listing.splitlines()) == 34
    assert f"sha256:{sha256(listing)}" == counted["digest"]


def test_an_ignored_folder_may_be_changed_and_taken_away(agent: Agent) -> None:
    (agent.cwd / "dist").mkdir()
    (agent.cwd / "dist" / "old.js").write_text("old")
    _, done = run(agent, python("import os; open('dist/old.js', 'w').write('new')"))
    assert done.stderr == ""
    assert (agent.cwd / "dist" / "old.js").read_text() == "new"
    _, done = run(agent, python("import shutil; shutil.rmtree('dist')"))
    assert done.stderr == ""
    assert not (agent.cwd / "dist").exists()


@pytest.mark.parametrize(
    "command", ["rm -rf dist", "mkdir -p build/x", "touch dist/y", "echo x > run.log", "rm -r dist/*"]
)
def test_a_command_whose_text_tells_may_write_what_git_ignores(agent: Agent, command: str) -> None:
    (agent.cwd / "dist").mkdir()
    (agent.cwd / "dist" / "old.js").write_text("old")
    assert allowed(run(agent, command)[0])


@pytest.mark.parametrize("name", [".env", "local_settings.ini", "old.log"])
def test_an_existing_ignored_file_that_stands_alone_is_judged_like_any_other(agent: Agent, name: str) -> None:
    (agent.cwd / name).write_text("mine\n")
    _, done = run(agent, python(f"open({name!r}, 'w').write('theirs')"))
    assert "SCOPE_VIOLATION" in done.stderr
    assert (agent.cwd / name).read_text() == "mine\n"
    assert refusal(agent.ask("Bash", command=f"echo theirs > {name}")) == "SCOPE_VIOLATION"
    assert not generated(agent.cwd)


def test_a_file_that_a_command_itself_left_may_be_made_anew_until_a_person_changes_it(agent: Agent) -> None:
    for text in ("one", "two"):
        _, done = run(agent, python(f"open('run.log', 'w').write('{text}')"))
        assert done.stderr == ""
        assert (agent.cwd / "run.log").read_text() == text
    (agent.cwd / "run.log").write_text("a person's")
    _, done = run(agent, python("open('run.log', 'w').write('three')"))
    assert "SCOPE_VIOLATION" in done.stderr
    assert (agent.cwd / "run.log").read_text() == "a person's"


@pytest.mark.parametrize(
    "path", [".vscode/settings.json", ".envrc", ".env", "docs/helper.so", "docs/__pycache__/conf.cpython-311.pyc"]
)
def test_what_programs_load_by_its_name_is_judged_like_any_other(agent: Agent, path: str) -> None:
    run(agent, write_files({path: "evil"}))
    assert not (agent.cwd / path).exists()
    assert not generated(agent.cwd)


def test_rules_that_the_command_or_an_earlier_one_wrote_hide_nothing(agent: Agent) -> None:
    run(agent, write_files({"src/.gitignore": "*\n", "src/evil.py": "evil = 1\n"}))
    assert not generated(agent.cwd)
    assert {f["path"] for r in records(agent.cwd, "mutation") for f in body(r)["files"]} == {
        "src/.gitignore",
        "src/evil.py",
    }
    run(agent, write_files({"src/later.py": "evil = 2\n"}))
    assert not generated(agent.cwd)
    assert [f["path"] for f in body(records(agent.cwd, "mutation")[-1])["files"]] == ["src/later.py"]


def test_rules_that_were_taken_out_of_the_working_tree_count_no_more(agent: Agent) -> None:
    (agent.cwd / ".gitignore").write_text("node_modules/\n")
    _, done = run(agent, write_files({"dist/out.js": "x"}))
    assert "SCOPE_VIOLATION" in done.stderr
    assert not (agent.cwd / "dist").exists()


def test_a_tracked_file_in_an_ignored_folder_is_judged_like_any_other(agent: Agent) -> None:
    (agent.cwd / "dist").mkdir()
    (agent.cwd / "dist" / "kept.js").write_text("tracked")
    run_git(agent.cwd, "add", "-f", "dist/kept.js")
    run_git(agent.cwd, "commit", "-qm", "kept")
    _, done = run(agent, write_files({"dist/kept.js": "evil", "dist/new.js": "new"}))
    assert "dist/kept.js" in done.stderr
    assert (agent.cwd / "dist" / "kept.js").read_text() == "tracked"
    assert (agent.cwd / "dist" / "new.js").read_text() == "new"


def test_governing_files_in_an_ignored_folder_stay_protected(agent: Agent) -> None:
    text = (
        "import os; a, b = '.' + 'claude', '.' + 'git'\n"
        "for p in (f'dist/{a}', f'node_modules/x/{b}/hooks'): os.makedirs(p)\n"
        "open(f'dist/{a}/settings.json', 'w'); open(f'node_modules/x/{b}/hooks/pre-commit', 'w')"
    )
    _, done = run(agent, python(text))
    assert "PROTECTED_PATH" in done.stderr
    assert not list(agent.cwd.glob("dist/.claude/*")), done.stderr
    assert not list(agent.cwd.glob("node_modules/x/.git/hooks/*")), done.stderr


@pytest.mark.parametrize(
    "command",
    [
        "git add -f dist/evil.js && git commit -qm evil",
        "python3 -c 0; git add -f dist/evil.js; git commit -qm evil",
        "git commit -qm evil -o dist/evil.js",
        "git update-index --add dist/evil.js && git commit -qm evil",
    ],
)
def test_an_ignored_file_out_of_scope_gets_onto_no_branch(agent: Agent, command: str) -> None:
    run(agent, write_files({"dist/evil.js": "evil"}))
    for part in (command, *command.split(" && ")):
        before = agent.ask("Bash", command=part)
        if allowed(before):
            given = before.get("updatedInput", {"command": part})
            run_shell(given["command"], agent.cwd)
            agent.tell("Bash", before["call_id"], {}, **given)
    assert "dist" not in run_git(agent.cwd, "ls-tree", "-r", "--name-only", "HEAD")


def test_where_there_is_no_git_and_no_commit_nothing_is_ignored(tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "fresh"
    (folder / "src").mkdir(parents=True)
    run_git(folder, "init", "-q")
    (folder / ".gitignore").write_text("dist/\n")
    overlay(home)
    agent = Agent(governed(folder), home)
    agent.select()
    _, done = run(agent, write_files({"dist/a": "x"}))
    assert "SCOPE_VIOLATION" in done.stderr
    assert not (folder / "dist").exists()


def test_a_change_of_ignored_files_says_nothing_at_stop(agent: Agent) -> None:
    run(agent, write_files({f"node_modules/{n}.js": "x" for n in range(20)}))
    reply = agent.send("Stop")
    assert b"node_modules" not in reply.stdout


def set_generated(agent: Agent, *patterns: str) -> None:
    config = agent.cwd / ".orchestration" / "remit.toml"
    config.write_text(config.read_text() + f"\n[containment]\ngenerated = {json.dumps(patterns)}\n")


def test_patterns_that_a_repository_brings_count_only_once_a_person_trusts_them(agent: Agent, home: Path) -> None:
    set_generated(agent, "**")
    _, done = run(agent, write_files({"docs/evil.md": "evil"}))
    assert "SCOPE_VIOLATION" in done.stderr
    trust_all(agent.cwd, home)
    _, done = run(agent, write_files({"docs/made.md": "made"}))
    assert done.stderr == ""
    assert (agent.cwd / "docs" / "made.md").read_text() == "made"
    assert generated(agent.cwd)[0]["folders"] == {"docs": 1}


def test_patterns_cover_no_tracked_file(agent: Agent, home: Path) -> None:
    set_generated(agent, "**")
    trust_all(agent.cwd, home)
    _, done = run(agent, write_files({"docs/page.md": "evil", "README.md": "evil"}))
    assert "docs/page.md" in done.stderr
    assert (agent.cwd / "docs" / "page.md").read_text() == "page\n"
    assert (agent.cwd / "README.md").read_text() == "# Example\n"


def test_other_patterns_than_the_trusted_ones_count_no_more(agent: Agent, home: Path) -> None:
    set_generated(agent, "docs/made/**")
    trust_all(agent.cwd, home)
    config = agent.cwd / ".orchestration" / "remit.toml"
    config.write_text(config.read_text().replace("docs/made/**", "docs/**"))
    _, done = run(agent, write_files({"docs/evil.md": "evil"}))
    assert "SCOPE_VIOLATION" in done.stderr


def test_a_bare_command_hides_nothing_by_rules_of_its_own(repository: Path, home: Path) -> None:
    agent = uncontained(repository, home)
    (repository / "docs").mkdir()
    agent.shell("eval 'echo \\* > docs/.gitignore; echo evil > docs/evil.md; echo new > src/new.py'")
    assert not (repository / "docs" / "evil.md").exists()
    assert not (repository / "docs" / ".gitignore").exists()
    agent.shell("eval 'echo \\*.py > src/.gitignore; mkdir -p src/x; echo y > src/x/y.py'")
    found = {f["path"] for record in records(repository, "mutation") for f in body(record)["files"]}
    assert {"src/new.py", "src/.gitignore", "src/x/y.py"} <= found


@pytest.mark.parametrize("made", ["open('dist', 'w').write('evil')", "os.symlink('docs', 'dist')"])
def test_an_ignored_folder_gives_no_leave_to_a_file_in_its_place(agent: Agent, made: str) -> None:
    (agent.cwd / "dist").mkdir()
    (agent.cwd / "dist" / "old").write_text("old")
    _, done = run(agent, python(f"import os, shutil; shutil.rmtree('dist'); {made}"))
    assert "SCOPE_VIOLATION" in done.stderr
    assert (agent.cwd / "dist").is_dir()
    assert not (agent.cwd / "dist").is_symlink()


def test_a_link_in_an_ignored_folder_lends_nothing(agent: Agent) -> None:
    (agent.cwd / "dist").mkdir()
    run(agent, python("import os; os.symlink('../docs', 'dist/d')"))
    run(agent, python("open('dist/d/page.md', 'w').write('evil'); open('dist/d/new.md', 'w').write('evil')"))
    assert (agent.cwd / "docs" / "page.md").read_text() == "page\n"
    assert not (agent.cwd / "docs" / "new.md").exists()


def test_a_pattern_file_of_the_user_that_lies_in_the_workspace_does_not_count(agent: Agent, home: Path) -> None:
    with (home / ".gitconfig").open("a") as config:
        config.write(f"[core]\n\texcludesFile = {agent.cwd}/src/ignore\n")
    (agent.cwd / "src" / "ignore").write_text("docs/\n")
    _, done = run(agent, write_files({"docs/evil.txt": "evil"}))
    assert "SCOPE_VIOLATION" in done.stderr
    assert not (agent.cwd / "docs" / "evil.txt").exists()
