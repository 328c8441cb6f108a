"""What each agent's own permission rules say of a command that is to run contained; facts seen with the real agents."""

import json
import time

import pytest

from remit.adapters.permissions import evaluate_own_rules, is_session_project, read_own_rules
from remit.core.shell_commands import Permission, RuleFile
from remit.policy.commands.permission_parts import split_command


def claude(
    command: str, mode: str = "default", words: tuple[str, ...] = (), scope: str = "user", **rules: list[str]
) -> Permission:
    content = json.dumps({"permissions": rules}).encode()
    file = RuleFile("settings.json", "nearby" if scope == "nearby" else "user", content)
    return evaluate_own_rules(
        "claude-code", read_own_rules("claude-code", [file], words), split_command(command), mode, words
    )


@pytest.mark.parametrize(
    ("rule", "command", "effect"),
    [
        ("Bash", "make; make test", "allow"),
        ("Bash(*)", "for x in a; do make; done", "allow"),
        ("Bash(python3 -m pytest:*)", "python3 -m pytest -q tests/test_table.py", "allow"),
        ("Bash(python3 -m pytest:*)", "python3 -m pytest -q 2>&1 | tail -5", "allow"),
        ("Bash(python3 -m pytest:*)", "cd src && python3 -m pytest", "allow"),
        ("Bash(python3 -m pytest:*)", "cd /etc && python3 -m pytest", "ask"),
        ("Bash(python3 -m pytest:*)", "python3 -m pytest-evil", "ask"),
        ("Bash(python3 -m pytest:*)", "python3 -m pytest && make", "ask"),
        ("Bash(python3 -m pytest:*)", "python3 -m pytest $(make)", "ask"),
        ("Bash(python3 -m pytest:*)", "python3 -m pytest > src/out.txt", "ask"),
        ("Bash(python3 -m pytest:*)", "python3 -m pytest & make", "ask"),
        ("Bash(python3 -m pytest:*)", "python3 -m pytest <<'E'\nx\nE", "ask"),
        ("Bash(python3 -m pytest:*)", "(python3 -m pytest)", "ask"),
        ("Bash(python3 *)", "python3 x.py", "allow"),
        ("Bash(npm run * --silent)", "npm run build --silent", "allow"),
        ("Bash(make test)", "make test", "allow"),
        ("Bash(make test)", "make test all", "ask"),
        ("Bash(:*)", "make", "ask"),
        ("Edit", "make", "ask"),
        ("Read(./src/**)", "make", "ask"),
        ("mcp__remit", "make", "ask"),
    ],
)
def test_claude_code_allows(rule: str, command: str, effect: str) -> None:
    assert claude(command, allow=[rule]).effect == effect


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("Bash(rm:*)", "make && rm -rf x"),
        ("Bash(rm:*)", "make $(rm x)"),
        ("Bash(rm *)", "sudo=1 timeout 5 rm x | python3 x.py"),
        ("Bash(make)", "make"),
        ("Bash(git push:*)", "python3 x.py; 'git' push"),
        ("Bash(git push *)", "python3 x.py && git  push origin"),
        ("Bash", "make"),
        ("Read(./.env)", "cat .env | python3 x.py"),
        ("Read(./secrets/**)", "python3 x.py secrets/key"),
        ("Edit(*.lock)", "python3 x.py deps/uv.lock"),
    ],
)
def test_claude_code_denies_before_it_asks_and_asks_before_it_allows(rule: str, command: str) -> None:
    assert claude(command, deny=[rule], ask=[rule], allow=["Bash"]).effect == "deny"
    assert claude(command, "bypassPermissions", deny=[rule]).effect == "deny"
    assert claude(command, ask=[rule], allow=["Bash"]).effect == "ask"
    assert claude(command, "auto", ask=[rule], allow=["Bash"]).effect == "ask"


HIDDEN = (
    "\\rm x",
    "r''m x",
    "$'rm' x",
    "rm\tx",
    "2>/dev/null rm x",
    "# c\nrm x",
    "if true; then rm x; fi",
    "for i in a; do rm x; done",
    "! rm x",
    "{ rm x; }",
    "f() { rm x; }; f",
    "case x in x) rm x;; esac",
    "coproc rm x",
    "(rm x) & make",
    "cat <(rm x)",
    'echo "$(echo `rm x`)"',
    "x=$(rm x)",
    "A=1 B=2 rm x",
    "sudo -n rm x",
    "timeout -k 1 5 rm x",
    "nice -n 5 env -u A rm x",
    "xargs -n 1 rm",
    "echo 'not closed; rm x",
    "é; rm x",
)


@pytest.mark.parametrize("command", HIDDEN)
def test_no_spelling_hides_a_program_from_a_rule_that_denies(command: str) -> None:
    assert claude(command, allow=["Bash"], deny=["Bash(rm:*)"]).effect == "deny"
    rules = read_own_rules("codex", [RuleFile("r", "user", b'prefix_rule(pattern=["rm"], decision="forbidden")')])
    assert evaluate_own_rules("codex", rules, split_command(command)).effect == "deny"
    rules = read_own_rules("gemini", [RuleFile("r.toml", "user", gemini_rule("deny", "rm").encode())])
    words = ("gemini", "--yolo")
    assert evaluate_own_rules("gemini", rules, split_command(command), "", words).effect == "deny"


def test_no_rule_and_no_command_takes_long() -> None:
    """A repository may bring the rule, and an agent the command."""
    began = time.thread_time()
    pattern = f"Bash({'*a' * 200}*b)"
    assert claude(f"make {'a' * 20_000}", allow=["Bash"], deny=[pattern]).effect == "allow"
    assert claude("make;" * 5000, allow=["Bash(make:*)"]).effect == "ask"
    assert claude("(" * 5000, allow=["Bash(make:*)"]).effect == "ask"
    comments = RuleFile("settings.json", "project", b"/*" * 200_000)
    assert read_own_rules("gemini", [comments]).unreadable == ("settings.json",)
    for deep in (b"[" * 100_000, b"prefix_rule(pattern=" + b"[" * 100_000):
        assert read_own_rules("codex", [RuleFile("r", "user", deep)]).unreadable == ("r",)
        assert read_own_rules("claude-code", [RuleFile("r", "user", deep)]).unreadable == ("r",)
        assert read_own_rules("gemini", [RuleFile("r.toml", "user", deep)]).unreadable == ("r.toml",)
    assert time.thread_time() - began < 10


@pytest.mark.parametrize(
    ("mode", "without", "by_prefix", "by_text"),
    [
        ("default", "ask", "allow", "allow"),
        ("plan", "ask", "allow", "allow"),
        ("dontAsk", "ask", "allow", "allow"),
        ("", "ask", "allow", "allow"),
        ("unheard-of", "ask", "allow", "allow"),
        ("bypassPermissions", "agent", "agent", "agent"),
        ("auto", "agent", "agent", "allow"),
    ],
)
def test_claude_codes_modes(mode: str, without: str, by_prefix: str, by_text: str) -> None:
    """In auto mode it sets wide rules aside, and a model reads the command."""
    found = [claude("make test", mode, allow=rules).effect for rules in ([], ["Bash(make:*)"], ["Bash(make test)"])]
    assert found == [without, by_prefix, by_text]


@pytest.mark.parametrize(
    ("words", "command", "effect"),
    [
        (("claude", "-p", "x", "--allowedTools", "Bash(make:*),Edit"), "make test", "allow"),
        (("claude", "--allowed-tools", "Edit", "Bash(make test)", "--model", "x"), "make test", "allow"),
        (("claude", "--allowedTools=Bash(make *) Edit"), "make test", "allow"),
        (("claude", "--model", "Bash"), "make test", "ask"),
        (("claude", "--allowedTools", "Edit", "-p", "Bash"), "make test", "ask"),
        (("claude", "--allowedTools", "Bash", "--disallowedTools", "Bash(make:*)"), "make test", "deny"),
    ],
)
def test_claude_codes_command_line(words: tuple[str, ...], command: str, effect: str) -> None:
    assert claude(command, words=words).effect == effect


def test_what_a_nearby_folder_allows_does_not_count_and_what_it_denies_does() -> None:
    assert claude("make", scope="nearby", allow=["Bash"]).effect == "ask"
    assert claude("make", scope="nearby", deny=["Bash(make)"]).effect == "deny"
    assert is_session_project("claude-code", "/w/my.app", "/h/.claude/projects/-w-my-app/1.jsonl")
    assert not is_session_project("claude-code", "/w/my.app/src", "/h/.claude/projects/-w-my-app/1.jsonl")
    assert not is_session_project("claude-code", "/w/my.app", None)


def test_managed_settings_can_make_other_allow_rules_void() -> None:
    files = [
        RuleFile("m", "managed", b'{"allowManagedPermissionRulesOnly": true, "permissions": {"allow": ["Bash(ls)"]}}'),
        RuleFile("u", "user", b'\xef\xbb\xbf{"permissions": {"allow": ["Bash"], "deny": ["Bash(rm:*)"]}}'),
    ]
    rules = read_own_rules("claude-code", files)
    effects = [evaluate_own_rules("claude-code", rules, split_command(c), "").effect for c in ("make", "rm x", "ls")]
    assert effects == ["ask", "deny", "allow"]


@pytest.mark.parametrize(
    "content", [b"{", b"\xff", b"[]", b'{"permissions": 3}', b'{"permissions": {"allow": "Bash"}}']
)
def test_settings_that_cannot_be_read_allow_nothing(content: bytes) -> None:
    rules = read_own_rules("claude-code", [RuleFile("f", "user", content)])
    assert evaluate_own_rules("claude-code", rules, split_command("make"), "default").effect == "ask"


@pytest.mark.parametrize(
    ("rules", "command", "effect"),
    [
        ("", "make", "agent"),
        ('prefix_rule(pattern=["make"])', "make", "agent"),
        ('prefix_rule(pattern=["make"], decision="forbidden", justification="no")', "cd x && make test", "deny"),
        ('prefix_rule(pattern=["make"], decision="forbidden")', "X=1 /usr/bin/make", "deny"),
        ('prefix_rule(pattern=["git", ["push", "pull"]], decision="prompt")', "git pull", "as written"),
        ('prefix_rule(pattern=["git", ["push", "pull"]], decision="prompt")', "git status", "agent"),
        ('# mine\nprefix_rule(pattern=["a"], match=["a b"])\nhost_executable(name="a", paths=[])', "b", "agent"),
        ('x = ["make"]\nprefix_rule(pattern=x)', "make", "as written"),
        ("prefix_rule(pattern=[1])", "make", "as written"),
        ('prefix_rule(pattern=["a"], decision="maybe")', "make", "as written"),
        ("not starlark at all(", "make", "as written"),
        ("\0", "make", "as written"),
    ],
)
def test_codex(rules: str, command: str, effect: str) -> None:
    found = read_own_rules("codex", [RuleFile("my.rules", "user", rules.encode())])
    assert evaluate_own_rules("codex", found, split_command(command)).effect == effect


def gemini_rule(decision: str, prefix: str, priority: int = 100, **more: str) -> str:
    lines = [f"{key} = {value}" for key, value in more.items()]
    named = [f'commandPrefix = "{prefix}"'] if prefix else []
    head = ["[[rule]]", 'toolName = "run_shell_command"', f'decision = "{decision}"', f"priority = {priority}"]
    return "\n".join([*head, *named, *lines]) + "\n"


@pytest.mark.parametrize(
    ("rules", "command", "yolo", "plain"),
    [
        ("", "make", "agent", "as written"),
        (gemini_rule("allow", "make"), "make test", "agent", "as written"),
        (gemini_rule("deny", "make"), "cd x && make test", "deny", "deny"),
        (gemini_rule("deny", "make"), "makepkg", "agent", "as written"),
        (gemini_rule("ask_user", "make"), "make test", "as written", "as written"),
        (gemini_rule("deny", "make") + gemini_rule("allow", "make test", 200), "make test", "agent", "as written"),
        (gemini_rule("deny", "", 100), "make", "deny", "deny"),
        (gemini_rule("deny", "", 100, commandRegex='"mak.*"'), "make", "as written", "as written"),
        (gemini_rule("deny", "", 100, modes='["plan"]'), "make", "as written", "as written"),
        ("not toml", "make", "as written", "as written"),
    ],
)
def test_gemini(rules: str, command: str, yolo: str, plain: str) -> None:
    found = read_own_rules("gemini", [RuleFile("my.toml", "user", rules.encode())])
    for words, effect in ((("gemini", "--approval-mode", "yolo"), yolo), (("gemini",), plain)):
        assert evaluate_own_rules("gemini", found, split_command(command), "", words).effect == effect


def test_geminis_settings_hold_rules_too() -> None:
    content = (
        b'{// mine\n"tools": {"exclude": ["run_shell_command(rm)"], "allowed": ["run_shell_command(make)", "x y"]}}'
    )
    found = read_own_rules("gemini", [RuleFile("settings.json", "project", content)])
    effects = [
        evaluate_own_rules("gemini", found, split_command(command), "", ("gemini", "--yolo")).effect
        for command in ("rm x", "make", "other")
    ]
    assert effects == ["deny", "agent", "agent"]


def test_an_agent_that_takes_no_other_command_has_nothing_to_be_asked() -> None:
    assert evaluate_own_rules("qwen", read_own_rules("qwen", []), split_command("make")).effect == "agent"
