"""Law 11: of a command that runs contained, Remit allows nothing that the agent's own rules would not allow."""

import json
import re
import shlex

from hypothesis import example, given
from hypothesis import strategies as st

from remit.adapters.permissions import evaluate_own_rules, read_own_rules
from remit.core.shell_commands import RuleFile
from remit.policy.commands.permission_parts import split_command

WORDS = ("git", "push", "python3", "-m", "pytest", "rm", "-rf", "x y", "*.py", "$HOME", "é", "a;b")
simple = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4)
joins = st.sampled_from([" && ", " || ", "; ", " | ", "\n", " & "])
modes = st.sampled_from(["default", "acceptEdits", "plan", "dontAsk", "auto", "bypassPermissions", "", "other"])
dressed = st.sampled_from(["{}", "A=1 {}", "timeout 5 {}", "({})", "echo $({})", "{} 2>&1", "{} > out", "nice {}"])


@st.composite
def commands(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A command, and the simple commands that it certainly runs."""
    parts = [" ".join(map(quoted, words)) for words in draw(st.lists(simple, min_size=1, max_size=3))]
    dress = draw(dressed)
    texts = [dress.format(part) if number == 0 else part for number, part in enumerate(parts)]
    joined = texts[0]
    for text in texts[1:]:
        joined += draw(joins) + text
    return joined, parts


def quoted(word: str) -> str:
    return word if re.fullmatch(r"[\w*.$-]+", word) else shlex.quote(word)


@st.composite
def bash_rules(draw: st.DrawFn) -> str:
    words = " ".join(map(quoted, draw(simple)))
    return draw(st.sampled_from([f"Bash({words})", f"Bash({words}:*)", f"Bash({words} *)", "Bash", "Bash(*)", "Edit"]))


def covers(rule: str, part: str) -> bool:
    """Whether Claude Code's rule is for exactly this simple command: its documentation, read plainly."""
    if rule in ("Bash", "Bash(*)"):
        return True
    if not rule.startswith("Bash("):
        return False
    content = rule[5:-1]
    if content.endswith(":*"):
        return part == content[:-2] or part.startswith(content[:-2] + " ")
    return re.fullmatch(".*".join(map(re.escape, content.split("*"))), part, re.DOTALL) is not None


@given(
    commands(),
    st.lists(bash_rules(), max_size=4),
    st.lists(bash_rules(), max_size=2),
    st.lists(bash_rules(), max_size=2),
    modes,
)
def test_claude_code(
    command: tuple[str, list[str]], allow: list[str], ask: list[str], deny: list[str], mode: str
) -> None:
    text, parts = command
    content = json.dumps({"permissions": {"allow": allow, "ask": ask, "deny": deny}}).encode()
    rules = read_own_rules("claude-code", [RuleFile("f", "user", content)])
    found = evaluate_own_rules("claude-code", rules, split_command(text), mode).effect
    if any(covers(rule, part) for rule in deny for part in parts):
        assert found == "deny"
        return
    if any(covers(rule, part) for rule in ask for part in parts):
        assert found in ("ask", "deny")
        return
    if found == "allow":
        assert all(any(covers(rule, part) for rule in allow) for part in parts)
    if found == "agent":
        assert mode in ("auto", "bypassPermissions"), "without a rule, a person is asked"
    assert found in ("allow", "ask", "deny", "agent")


prefixes = st.lists(st.sampled_from(["git", "push", "python3", "rm", "-rf"]), min_size=1, max_size=2)
decisions = st.sampled_from(["allow", "prompt", "forbidden"])


@given(commands(), st.lists(st.tuples(prefixes, decisions), max_size=4))
def test_codex(command: tuple[str, list[str]], given_rules: list[tuple[list[str], str]]) -> None:
    text, parts = command
    lines = [f"prefix_rule(pattern={pattern!r}, decision={decision!r})" for pattern, decision in given_rules]
    rules = read_own_rules("codex", [RuleFile("f", "user", "\n".join(lines).encode())])
    found = evaluate_own_rules("codex", rules, split_command(text)).effect
    hits = {decision for pattern, decision in given_rules for part in parts if part.split()[: len(pattern)] == pattern}
    if "forbidden" in hits:
        assert found == "deny"
    elif "prompt" in hits:
        assert found in ("as written", "deny")
    assert found in ("agent", "as written", "deny"), "an allow of ours would count for more than its rules do"


@given(commands(), st.lists(st.tuples(prefixes, decisions), max_size=4), st.booleans())
@example(("timeout 5 python3 git", ["python3 git"]), [(["git"], "allow"), (["python3"], "forbidden")], False)
def test_gemini(command: tuple[str, list[str]], given_rules: list[tuple[list[str], str]], yolo: bool) -> None:
    text, parts = command
    names = {"allow": "allow", "prompt": "ask_user", "forbidden": "deny"}
    entries = [
        f'[[rule]]\ntoolName = "run_shell_command"\ncommandPrefix = {json.dumps(" ".join(pattern))}\n'
        f'decision = "{names[decision]}"\npriority = {100 - number}\n'
        for number, (pattern, decision) in enumerate(given_rules)
    ]
    rules = read_own_rules("gemini", [RuleFile("f.toml", "user", "".join(entries).encode())])
    words = ("gemini", "--yolo") if yolo else ("gemini",)
    found = evaluate_own_rules("gemini", rules, split_command(text), "", words).effect
    first = [
        next((d for pattern, d in given_rules if part.split()[: len(pattern)] == pattern), "none") for part in parts
    ]
    assert found in (("agent", "as written", "deny") if yolo else ("as written", "deny"))
    if "forbidden" in first:
        assert found == "deny"
    elif "prompt" in first:
        assert found in ("as written", "deny")
