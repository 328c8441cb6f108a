"""Checks that an embedding program registers with its gate."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gate.driving import INTENTS, body, governed, machine, records
from gate.hooks.trusted_hooks import put_hooks
from gate.test_ways_round import awaited_question
from remit.core.call import Outcome, SessionKey, ToolCall
from remit.core.decision import Facts, Finding, Verdict
from remit.gate.gate import Gate
from remit.gate.people.questions import ApprovalReply
from remit.policy.decide import Check

KEY = SessionKey("s")


@pytest.fixture
def gate(repository: Path, home: Path) -> Gate:
    """A gate with a session under INT-001."""
    found = Gate.open(governed(repository), machine(home))
    found.intents.select(KEY, "mine", "INT-001", tool="select")
    return found


def write(gate: Gate, path: str = "src/x.py") -> ToolCall:
    """A write."""
    return ToolCall("mine", KEY, "Write", "write", str(gate.workspace.root), paths=(path,))


def saying(verdict: Verdict) -> Check:
    """A hook that always says the same, in the words of another rule."""

    def check(call: ToolCall, facts: Facts) -> Finding | None:
        return Finding("scope", "SCOPE_VIOLATION", "not on a Friday", verdict)

    return check


def test_a_hook_can_refuse_and_is_recorded(gate: Gate) -> None:
    gate.add_hook("friday", saying("deny"))
    answer = gate.before(write(gate))
    assert (answer.decision.effect, answer.reason[:14]) == ("deny", "[HOOK_BLOCKED]")
    assert "not on a Friday" in answer.reason
    violation = body(records(gate.workspace.root, "denied")[-1])["violation"]
    assert violation["error_type"] == "HOOK_BLOCKED"


def test_a_hook_sees_safe_calls_too(gate: Gate) -> None:
    gate.add_hook("friday", saying("deny"))
    read = ToolCall("mine", KEY, "Read", "read", str(gate.workspace.root), paths=("src/x.py",))
    assert gate.before(read).decision.effect == "deny"


def test_a_hook_that_was_taken_out_says_nothing_more(gate: Gate) -> None:
    remove = gate.add_hook("friday", saying("deny"))
    remove()
    remove()
    assert gate.before(write(gate)).decision.effect == "allow"


def test_a_hook_never_loosens(gate: Gate) -> None:
    gate.add_hook("generous", saying("allow"))
    assert gate.before(write(gate, "docs/x")).decision.effect == "deny"
    assert gate.before(write(gate)).decision.effect == "allow"


def test_a_hook_that_breaks_denies_and_that_is_recorded(gate: Gate) -> None:
    def broken(call: ToolCall, facts: Facts) -> Finding | None:
        raise KeyError("gone")

    gate.add_hook("broken", broken)
    assert gate.before(write(gate)).decision.effect == "deny"
    assert body(records(gate.workspace.root, "check_failed")[-1])["check"] == "broken"


def test_in_observe_a_hook_only_objects(repository: Path, home: Path) -> None:
    gate = Gate.open(governed(repository, "observe", INTENTS), machine(home))
    gate.add_hook("friday", saying("deny"))
    decision = gate.before(write(gate)).decision
    assert (decision.effect, decision.verdict) == ("allow", "deny")


def test_a_name_is_given_once(gate: Gate) -> None:
    gate.add_hook("friday", saying("deny"))
    with pytest.raises(ValueError, match="'friday' already"):
        gate.add_hook("friday", saying("deny"))


def test_a_listener_hears_what_came_of_a_call_and_its_words_reach_the_model(gate: Gate) -> None:
    remove = gate.add_after_hook("echo", lambda call, outcome: f"{call.tool} went {'well' if outcome.ok else 'wrong'}")
    gate.before(write(gate))
    assert "Write went well" in gate.after(write(gate), Outcome()).context
    remove()
    gate.before(write(gate))
    assert "went well" not in gate.after(write(gate), Outcome()).context


def test_a_listener_that_breaks_changes_nothing_and_is_recorded(gate: Gate) -> None:
    def broken(call: ToolCall, outcome: Outcome) -> str:
        raise SystemExit(1)

    gate.add_after_hook("broken", broken)
    gate.before(write(gate))
    assert gate.after(write(gate), Outcome()).decision.effect == "allow"
    assert body(records(gate.workspace.root, "check_failed")[-1])["check"] == "broken"


def test_a_hook_that_asks_is_put_to_a_person_and_their_yes_lets_it_pass(gate: Gate) -> None:
    gate.add_hook("careful", saying("ask"))
    assert gate.before(write(gate)).decision.effect == "deny"
    gate.questions.mark_watcher_present()
    answering = threading.Thread(target=say_yes, args=(Gate.open(gate.workspace.root, gate.environment),))
    answering.start()
    assert gate.before(write(gate)).decision.effect == "allow"
    answering.join()


def say_yes(gate: Gate) -> None:
    """Answer the first question that comes."""
    question = awaited_question(gate.questions)
    gate.questions.answer_question(question.id, ApprovalReply(True))


PACKAGE = """
from remit.core.decision import Finding

def check(call, facts):
    return Finding("x", "HOOK_BLOCKED", "said the package") if call.tool == "Write" else None

def slow(call, facts):
    import time
    time.sleep(600)  # until somebody ends it

def listener(call, outcome):
    return f"heard {call.tool}"

number = 3
"""

ASK = """
import sys
sys.path.insert(0, {place!r})
from pathlib import Path
from remit.core.call import Outcome, SessionKey, ToolCall
from remit.gate.machine import Environment
from remit.gate.gate import Gate
gate = Gate.open({root!r}, Environment(Path({home!r}), Path({home!r}) / "tmp"))
call = ToolCall("mine", SessionKey("s"), "Write", "write", {root!r}, paths=("src/x.py",))
answer = gate.before(call)
print(answer.decision.effect, answer.reason.partition("\\n")[0])
print(gate.after(call, Outcome()).context)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder of installed packages, with one that a hook may name."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "theirs.py").write_text(PACKAGE)
    return folder


def asked(gate: Gate, place: Path) -> list[str]:
    """What a fresh process with these packages says to a write."""
    found = {"place": str(place), "root": str(gate.workspace.root), "home": str(gate.environment.home)}
    done = subprocess.run([sys.executable, "-c", ASK.format(**found)], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_a_check_of_an_installed_package_is_found_and_asked(gate: Gate, place: Path) -> None:
    assert asked(gate, place)[0].startswith("allow")
    info = place / "theirs-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[remit.checks]\nfriday = theirs:check\n")
    assert asked(gate, place)[0] == "deny [HOOK_BLOCKED] said the package"
    (info / "entry_points.txt").write_text("[remit.checks]\nfriday = theirs:gone\n")
    info.rename(place / "theirs-2.dist-info")
    assert asked(gate, place)[0].startswith("deny [HOOK_BLOCKED]")


@pytest.mark.parametrize(
    ("hook", "said"),
    [
        ('on = "before"\nentry_point = "theirs:check"\ntimeout_s = 60', "deny [HOOK_BLOCKED] said the package"),
        ('on = "before"\nentry_point = "theirs:number"', "deny [HOOK_BLOCKED]"),
        ('on = "before"\nentry_point = "theirs:slow"\ntimeout_s = 0.3', "deny [HOOK_BLOCKED]"),
        ('on = "before"\nentry_point = "theirs:gone"\non_error = "allow"', "allow"),
        ('on = "after"\nentry_point = "theirs:listener"\ntimeout_s = 60', "allow"),
    ],
)
def test_a_hook_may_be_a_function_of_an_installed_package(gate: Gate, place: Path, hook: str, said: str) -> None:
    put_hooks(gate.workspace.root, gate.environment.home, f"[[hooks]]\n{hook}\n")
    found = asked(gate, place)
    assert found[0].startswith(said)
    assert ("heard Write" in "\n".join(found)) is ("listener" in hook)
