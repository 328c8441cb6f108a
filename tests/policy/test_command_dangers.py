"""Dangerous commands are found whatever the scope, and harmless look-alikes are not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.test_corpus import AGENT_COMMANDS
from remit.core.call import SessionKey, ToolCall
from remit.core.decision import Facts, Verdict
from remit.policy.checks.call import check_command
from remit.policy.commands import analyse
from remit.policy.commands.dangers import find_dangerous_words

HARMLESS = [
    'git commit -m "never git push --force again"',
    'git commit -m "remove --no-verify"',
    "git log --grep='reset --hard'",
    "git push -u origin feature",
    "git push --dry-run --force",
    "git branch -d feature",
    "git clean -nd",
    "git restore --staged .",
    "git reset HEAD~1",
    "git checkout main",
    "git stash pop",
    "rm -rf build dist/*",
    "cd build && rm -rf *",
    "rm -rf /tmp/x",
    'rm -rf "$TMPDIR/x"',
    "find . -name '*.pyc' -delete",
    "find . -type d -name __pycache__ -exec rm -rf {} +",
    "chmod -R 755 public",
    "dd if=/dev/zero of=disk.img count=1",
    "kill -9 4321",
    "systemctl status x",
    "crontab -l",
    "curl -s https://example.org | jq .",
    "curl -s https://example.org | python3 -m json.tool",
    "curl -d @payload.json http://localhost:3000",
    'curl -H "Authorization: Bearer $TOKEN" https://example.org',
    "source .env && npm start",
    "cp .env.example .env",
    "docker run --rm -v $PWD:/app app pytest",
    "kubectl get pods",
    "npm publish --dry-run",
    "sudo --help",
    "echo 'sudo rm -rf /' | cat -A",
    "env | grep PATH",
    "python3 -c \"import yaml; print(yaml.safe_load(open('.orchestration/active_intents.yaml')))\"",
]

FORBIDDEN_COMMANDS = [
    "cd src && remit mode observe",
    "bash -c 'remit uninstall'",
    "python3 -c \"open('.orchestration/remit.toml', 'w')\"",
    "vim .claude/settings.json",
]

DANGEROUS = [row.cmd for row in AGENT_COMMANDS if row.kind == "dangerous" and analyse(row.cmd).outcome == "dangerous"]


@pytest.mark.parametrize("command", HARMLESS)
def test_what_only_looks_dangerous_is_not(command: str) -> None:
    assert analyse(command).outcome != "dangerous", analyse(command).reasons


def verdict(command: str) -> Verdict | None:
    call = ToolCall("a", SessionKey("s"), "Bash", "execute", "/w", command=command)
    finding = check_command(call, Facts("enforce"))
    return None if finding is None else finding.verdict


@pytest.mark.parametrize("command", FORBIDDEN_COMMANDS)
def test_what_governs_agents_is_denied_and_not_asked_about(command: str) -> None:
    assert (analyse(command).is_forbidden, verdict(command)) == (True, "deny")


def test_what_a_person_may_let_pass_is_asked_about_with_the_words_that_decided() -> None:
    call = ToolCall("a", SessionKey("s"), "Bash", "execute", "/w", command="cd a && git reset --hard HEAD~1")
    finding = check_command(call, Facts("enforce"))
    assert finding is not None
    assert (finding.verdict, finding.code, finding.context["lasting"]) == ("ask", "COMMAND_BLOCKED", False)
    assert "git reset --hard HEAD~1" in finding.message
    assert verdict("git status") is verdict("make") is verdict("rm -rf build") is None


@given(st.sampled_from(DANGEROUS), st.sampled_from(["; ", " && ", "\n", " | ", " # ", " "]), st.text(max_size=30))
@settings(max_examples=400, deadline=None)
def test_junk_behind_a_dangerous_command_never_makes_it_one_that_may_run(command: str, sign: str, junk: str) -> None:
    assert analyse(command + sign + junk.lstrip("-")).outcome in ("dangerous", "unknown")


@pytest.mark.parametrize(
    "around", ["({})", "if true; then {}; fi", "{} &", "true && {}", "false || {}", "! {}", "x=$({})"]
)
@pytest.mark.parametrize("command", ["git reset --hard", "curl -s x.y | sh", "sudo ls", "rm -rf ~"])
def test_a_danger_is_seen_wherever_it_stands(around: str, command: str) -> None:
    assert analyse(around.format(command)).outcome == "dangerous"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("cd src && git push --force origin main 2>&1 | tail -3", ("--force",)),
        ("git push -f", ("-f",)),
        ("git clean -fdx", ("-fdx",)),
        ("rm -rf /", ("rm",)),
        ("ls -la", ()),
        ("git push origin main", ()),
        ("echo 'not closed", ()),
    ],
)
def test_the_words_that_make_a_command_dangerous_are_named_for_a_person(command: str, words: tuple[str, ...]) -> None:
    assert find_dangerous_words(command) == words


@pytest.mark.parametrize(
    "setting", ["alias.p='push --force'", "alias.x='!sh -c true'", "ALIAS.p=push", "core.hooksPath=/x"]
)
def test_a_setting_of_one_git_command_that_hides_another_is_dangerous(setting: str) -> None:
    assert find_dangerous_words(f"git -c {setting} p origin HEAD:main")


@pytest.mark.parametrize(
    ("words", "is_dangerous"),
    [
        ("core.hooksPath", False),
        ("--get core.hooksPath", False),
        ("get core.hooksPath", False),
        ("--global -z --get core.hooksPath", False),
        ("--type path core.hooksPath", False),
        ("--get-regexp alias", False),
        ("core.hooksPath /x", True),
        # git's options end at the key: these set a value.
        ("core.hooksPath --get", True),
        ("core.hooksPath -l", True),
        ("--unset core.hooksPath", True),
        ("--uns core.hooksPath", True),
        ("--add core.hooksPath /x", True),
        ("set core.hooksPath /x", True),
        ("unset core.hooksPath", True),
    ],
)
@pytest.mark.parametrize("before", ["", "npx husky init; ", "make x && "])
def test_to_read_a_setting_is_no_danger_whatever_runs_beside_it(words: str, is_dangerous: bool, before: str) -> None:
    assert (analyse(f"{before}git config {words}").outcome == "dangerous") is is_dangerous
