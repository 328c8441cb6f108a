"""Constraints on what agents really write: through the hook, with what they send."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from conftest import run_git
from gate.driving import Agent, allowed, body, governed, machine, records, refusal
from remit.core.call import SessionKey
from remit.gate.gate import Gate
from remit.gate.intents.refusals import IntentRefused

INTENTS = """\
version: "1.0"
active_intents:
  - id: INT-001
    status: IN_PROGRESS
    owned_scope: ["**"]
    acceptance_criteria: [it works]
    constraints:
"""


def working(repository: Path, home: Path, *rules: str, mode: str = "enforce") -> Agent:
    """An agent under an intent with these constraints."""
    governed(repository, mode, INTENTS + "".join(f"      - {rule}\n" for rule in rules))
    agent = Agent(repository, home)
    agent.select()
    return agent


def context(answer: dict[str, Any]) -> str:
    """What the model is told."""
    return str(answer.get("additionalContext", ""))


def complete(agent: Agent) -> str:
    """How completing ends: the status, or the refusal."""
    gate = Gate.open(agent.cwd, machine(agent.home))
    try:
        return gate.completion.complete(SessionKey(agent.session), "claude-code", "INT-001", "done").status
    except IntentRefused as refused:
        return refused.violation.error


def test_a_file_that_would_be_too_long_is_refused_in_five_parts(repository: Path, home: Path) -> None:
    agent = working(repository, home, '{type: max_lines, paths: "src/**", max: 2}')
    answer = agent.write("src/a.py", "1\n2\n3\n")
    reason = answer["permissionDecisionReason"]
    assert refusal(answer) == "CONSTRAINT_VIOLATION"
    assert 'max_lines: paths="src/**", max=2: src/a.py: 3 lines; INT-001 asks for at most 2.' in reason
    assert [line.partition(":")[0] for line in reason.splitlines()[1:]] == [
        "What happened",
        "Do",
        "Example",
        "Why",
    ]
    assert not (repository / "src" / "a.py").exists()
    violation = body(records(repository, "denied")[-1])["violation"]
    assert violation["context"]["broken"] == [
        {
            "type": "max_lines",
            "constraint": 'max_lines: paths="src/**", max=2',
            "measured": "3 lines",
            "bound": "at most 2",
            "path": "src/a.py",
            "lines": [3],
        }
    ]
    assert allowed(agent.write("src/a.py", "1\n2\n"))


EDITS: list[tuple[str, dict[str, Any]]] = [
    ("Write", {"file_path": "a.py", "content": "x = eval(1)\n"}),
    ("Edit", {"file_path": "a.py", "old_string": "two", "new_string": "eval(2)"}),
    ("Edit", {"file_path": "a.py", "old_string": "one\ntwo", "new_string": "eval(2)"}),
    ("Edit", {"file_path": "a.py", "old_string": "o", "new_string": "\neval(2)\n", "replace_all": True}),
    (
        "MultiEdit",
        {
            "file_path": "a.py",
            "edits": [{"old_string": "one", "new_string": "ev"}, {"old_string": "ev", "new_string": "eval(1)"}],
        },
    ),
    ("Edit", {"file_path": "half.py", "old_string": "(1)", "new_string": "al(1)"}),
    ("NotebookEdit", {"notebook_path": "n.ipynb", "cell_id": "c1", "new_source": "eval(1)"}),
    ("NotebookEdit", {"notebook_path": "n.ipynb", "new_source": "eval(1)", "edit_mode": "insert", "cell_type": "code"}),
    ("Bash", {"command": "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: b.py\n+eval(1)\n*** End Patch\nEOF"}),
    (
        "Bash",
        {
            "command": "apply_patch <<'EOF'\n*** Begin Patch\n"
            "*** Update File: old.txt\n*** Move to: b.py\n*** End Patch\nEOF"
        },
    ),
]


@pytest.mark.parametrize(("tool", "arguments"), EDITS)
def test_every_form_of_edit_is_judged_by_what_it_would_leave(
    tool: str, arguments: dict[str, Any], repository: Path, home: Path
) -> None:
    agent = working(repository, home, '{type: forbid_pattern, pattern: "eval($$$)", language: python}')
    (repository / "a.py").write_bytes(b"one\r\ntwo\r\n")
    (repository / "half.py").write_text("ev(1)\n")
    (repository / "old.txt").write_text("eval(1)\n")
    cell: dict[str, Any] = {
        "cell_type": "code",
        "id": "c1",
        "metadata": {},
        "source": "x",
        "outputs": [],
        "execution_count": None,
    }
    (repository / "n.ipynb").write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4}))
    assert refusal(agent.ask(tool, **arguments)) == "CONSTRAINT_VIOLATION"


def test_an_edit_that_does_not_make_it_worse_passes(repository: Path, home: Path) -> None:
    (repository / "a.py").write_text("eval(1)\n" * 5)
    agent = working(repository, home, "{type: max_lines, max: 3}", '{type: forbid_pattern, pattern: "eval($$$)"}')
    edit = {"file_path": "a.py", "old_string": "eval(1)\n" * 5, "new_string": "eval(1)\n" * 4}
    assert allowed(agent.ask("Edit", **edit))
    assert refusal(agent.ask("Edit", **{**edit, "new_string": "eval(2)\n" * 4})) == "CONSTRAINT_VIOLATION"


def test_what_a_command_left_is_undone_told_and_recorded(repository: Path, home: Path) -> None:
    agent = working(repository, home, "{type: max_lines, paths: 'src/**', max: 2}")
    (repository / "src").mkdir(exist_ok=True)
    said = context(agent.shell("seq 3 > src/a.py; seq 2 > src/b.py")["after"])
    assert "src/a.py: 3 lines; INT-001 asks for at most 2." in said
    assert "remit restore" in said
    assert sorted(path.name for path in (repository / "src").iterdir()) == ["app.py", "b.py"]
    found = body(records(repository, "restore")[-1])
    assert (found["rules"], list(found["broken"])) == ({"src/a.py": "CONSTRAINT_VIOLATION"}, ["src/a.py"])
    assert complete(agent) == "DONE"


def test_what_was_so_before_the_command_is_not_undone(repository: Path, home: Path) -> None:
    agent = working(repository, home, "{type: max_lines, max: 2}")
    (repository / "src" / "app.py").write_text("1\n" * 5)
    agent.shell("sed -i 1d src/app.py")
    assert (repository / "src" / "app.py").read_text() == "1\n" * 4
    agent.shell("printf '1\\n1\\n' >> src/app.py")
    assert (repository / "src" / "app.py").read_text() == "1\n" * 4


def test_what_a_person_let_pass_is_not_undone(repository: Path, home: Path) -> None:
    agent = working(repository, home, "{type: max_lines, paths: 'src/**', max: 2}")
    before = agent.ask("Bash", command="make")
    gate = Gate.open(repository, machine(home))
    [open_call] = gate.state.list_open_calls()
    assert open_call.pending
    gate.state.replace_pending_call(open_call.row, replace(open_call.pending, grants=("once",)))
    gate.close()
    (repository / "src" / "a.py").write_text("1\n" * 3)
    agent.tell("Bash", before["call_id"], {"stdout": ""}, command="make")
    assert (repository / "src" / "a.py").exists()
    assert "at most 2" in complete(agent)


def test_what_a_command_left_and_cannot_be_undone_keeps_the_intent_open(repository: Path, home: Path) -> None:
    """A link is as long as what it leads to."""
    (repository / "long.txt").write_text("1\n" * 3)
    agent = working(repository, home, "{type: max_lines, paths: 'src/**', max: 2}")
    after = agent.shell("ln -s ../long.txt src/a.py")["after"]
    assert "src/a.py: 3 lines; INT-001 asks for at most 2." in context(after)
    found = body(records(repository, "verification")[-1])
    assert (found["command"], found["exit_code"], found["paths"]) == ("constraint max_lines", 1, ["src/a.py"])
    assert "at most 2" in complete(agent)
    with pytest.raises(IntentRefused):
        Gate.open(agent.cwd, machine(agent.home)).completion.verify_for_person("INT-001")
    agent.shell("rm src/a.py")
    assert complete(agent) == "DONE"


def test_code_without_a_test_is_told_once_it_is_written_and_refused_in_the_end(repository: Path, home: Path) -> None:
    agent = working(repository, home, "{type: require_test_change, paths: 'src/**'}")
    assert "changed, and no test" in context(agent.write("src/a.py", "1\n")["after"])
    assert "a test with it" in complete(agent)
    assert context(agent.write("tests/test_a.py", "1\n")["after"]) == ""
    assert complete(agent) == "DONE"


def test_one_file_too_many_is_refused_and_one_known_is_not(repository: Path, home: Path) -> None:
    agent = working(repository, home, "{type: max_files, max: 2}")
    assert allowed(agent.write("a.py", "1\n"))
    assert allowed(agent.write("b.py", "1\n"))
    assert "so far a.py, b.py" in agent.write("c.py", "1\n")["permissionDecisionReason"]
    assert allowed(agent.write("a.py", "2\n"))
    assert refusal(agent.shell("echo 1 > c.py")) == "CONSTRAINT_VIOLATION"


def test_changes_that_were_undone_do_not_count(repository: Path, home: Path) -> None:
    rules = INTENTS.replace('["**"]', '["src/**"]') + "      - {type: max_files, max: 2}\n"
    agent = Agent(governed(repository, "enforce", rules), home)
    agent.select()
    assert allowed(agent.write("src/a.py", "1\n"))
    (agent.cwd / "docs").mkdir()
    command = 'python3 -c \'open("docs/x.md", "w").write("x")\''
    assert "undid" in context(agent.shell(command)["after"]) or not (agent.cwd / "docs" / "x.md").exists()
    assert [f["path"] for f in body(records(repository, "mutation")[-1])["files"]] == ["docs/x.md"]
    assert allowed(agent.write("src/b.py", "1\n"))
    assert refusal(agent.write("src/c.py", "1\n")) == "CONSTRAINT_VIOLATION"
    assert allowed(agent.shell("rm src/b.py"))
    assert allowed(agent.write("src/c.py", "1\n"))


def test_a_path_that_is_forbidden_is_for_commands_too(repository: Path, home: Path) -> None:
    agent = working(repository, home, "{type: forbid_path, paths: 'vendor/**'}")
    assert refusal(agent.write("vendor/a", "1\n")) == "CONSTRAINT_VIOLATION"
    agent.session = "session-2"
    agent.select()
    assert refusal(agent.shell("mkdir -p x && echo 1 > vendor/b")) == "CONSTRAINT_VIOLATION"


@pytest.mark.parametrize("mode", ["observe", "warn"])
def test_without_enforcing_it_passes_and_is_known(mode: str, repository: Path, home: Path) -> None:
    agent = working(repository, home, "{type: max_lines, max: 1}", mode=mode)
    answer = agent.write("a.py", "1\n2\n")
    assert allowed(answer)
    assert ("in enforce it would be refused" in context(answer)) == (mode == "warn")
    assert body(records(repository, "verification")[-1])["exit_code"] == 1


def test_words_are_guidance_and_take_nothing(repository: Path, home: Path) -> None:
    agent = working(repository, home, "max_lines of 1 would be nice")
    assert allowed(agent.write("a.py", "1\n2\n"))


COMMANDS = [
    "cp bad.txt src/a.py",
    "mv bad.txt src/a.py",
    "git mv bad.txt src/a.py",
    "ln -s ../bad.txt src/a.py",
    "printf ev > src/a.py; printf 'al(1)' >> src/a.py",
    "cat > src/a.py <<'EOF'\neval(1)\nEOF",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_brings_it_in_some_other_way_is_found_out(command: str, repository: Path, home: Path) -> None:
    (repository / "bad.txt").write_text("eval(1)\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "bad")
    agent = working(repository, home, '{type: forbid_pattern, pattern: "eval($$$)"}')
    assert "src/a.py: `eval($$$)` (line 1)" in context(agent.shell(command)["after"])
    linked = command.startswith("ln")
    assert os.path.lexists(repository / "src" / "a.py") == linked
    assert (repository / "bad.txt").read_text() == "eval(1)\n"
    assert ("INT-001 asks for none" in complete(agent)) == linked


KINDS_LOADED = """
import sys
sys.path[:0] = {path!r}
{first}
from pathlib import Path
from gate.driving import Agent
agent = Agent(Path({root!r}), Path({home!r}))
print(agent.ask("Write", file_path="a.py", content="eval(1)").get("permissionDecisionReason"))
print(sorted(name for name in sys.modules if name.startswith(("remit.policy.constraint_kinds", "ast_grep_py"))))
"""


def in_a_fresh_process(agent: Agent, first: str = "") -> tuple[str, list[str]]:
    """What is said of a write that evaluates text, and which of the kinds' modules that took."""
    code = KINDS_LOADED.format(path=sys.path, first=first, root=str(agent.cwd), home=str(agent.home))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *reason, modules = done.stdout.strip().splitlines()
    return "\n".join(reason), json.loads(modules.replace("'", '"'))


def test_an_intent_with_words_only_loads_no_kind_of_constraint(repository: Path, home: Path) -> None:
    agent = working(repository, home, "be kind")
    assert in_a_fresh_process(agent) == ("None", [])


def test_ast_grep_is_loaded_for_those_who_have_a_pattern_of_syntax(repository: Path, home: Path) -> None:
    agent = working(repository, home, "{type: max_lines, max: 9}", "{type: forbid_pattern, regex: exec}")
    reason, modules = in_a_fresh_process(agent)
    assert reason == "None"
    assert "remit.policy.constraint_kinds" in modules
    assert not any(name.startswith("ast_grep_py") for name in modules)


def test_without_ast_grep_a_pattern_of_syntax_refuses_and_says_how_to_install_it(repository: Path, home: Path) -> None:
    agent = working(repository, home, '{type: forbid_pattern, pattern: "exec($$$)"}')
    reason, _ = in_a_fresh_process(agent, 'sys.modules["ast_grep_py"] = None')
    assert reason.startswith("[CONSTRAINT_VIOLATION]")
    assert "pip install '.[code]'" in reason
    (repository / "a.py").write_text("x = 1\n")
    reason, _ = in_a_fresh_process(agent, 'sys.modules["ast_grep_py"] = None')
    assert reason.startswith("[CONSTRAINT_VIOLATION]")


def test_without_a_grammar_a_forbidden_import_refuses_and_says_how_to_install_it(repository: Path, home: Path) -> None:
    agent = working(repository, home, "{type: forbid_import, module: os}")
    reason, _ = in_a_fresh_process(agent, 'sys.modules["tree_sitter_python"] = None')
    assert "pip install --force-reinstall remit" in reason
