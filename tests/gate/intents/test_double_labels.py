"""Two intents of one label: nobody selects either, and who works under one goes on, by its uid."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias

import pytest

from cli.running import run
from conftest import run_git
from gate.driving import Agent, body, governed, records
from remit.core.intent import Intent, identify, match_intents
from remit.core.intents.strictness import RuleSet, hold_stricter
from remit.gate.gate import Gate
from remit.gate.intents.mending import renumber_intent
from remit.gate.intents.person_edits import draft_fork

Layout: TypeAlias = Literal["files", "list"]
TIMES = {"mine": "2026-11-01T00:00:00Z", "theirs": "2026-11-02T00:00:00Z"}
UIDS = {name: identify(Intent("INT-001", (), created_at=at)) for name, at in TIMES.items()}
SCOPES = {"mine": "src/**", "theirs": "docs/**"}


def declare(root: Path, layout: Layout, *names: str) -> None:
    """Declare INT-001 once for each name, and INT-002."""
    folder = root / ".orchestration"
    fields = [("INT-001", name, SCOPES[name], f"created_at: {TIMES[name]}") for name in names]
    rows = [*fields, ("INT-002", "other", "lib/**", "priority: LOW")]
    if layout == "list":
        items = "".join(
            f'  - id: {i}\n    name: {name}\n    owned_scope: ["{scope}"]\n    {more}\n'
            for i, name, scope, more in rows
        )
        (folder / "active_intents.yaml").write_text(f"active_intents:\n{items}")
        return
    (folder / "active_intents.yaml").unlink(missing_ok=True)
    (folder / "intents").mkdir(exist_ok=True)
    for path in (folder / "intents").iterdir():
        path.unlink()
    for i, name, scope, more in rows:
        text = f"id: {i}\nname: {name}\nowned_scope:\n  - {scope}\n{more}\n"
        (folder / f"intents/{i}-{name}.yaml").write_text(text)


@pytest.fixture(params=["files", "list"])
def layout(request: pytest.FixtureRequest, repository: Path, home: Path) -> Layout:
    governed(repository)
    declare(repository, request.param, "mine")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "rules")
    return request.param


def is_allowed(answer: object) -> bool:
    return isinstance(answer, dict) and "after" in answer


def selected(root: Path) -> str | None:
    state = Gate.open(root).state
    return state.active_session(state.list_recent_sessions()[0]).intent_id


def test_who_works_under_one_goes_on_and_nobody_selects_either(repository: Path, home: Path, layout: Layout) -> None:
    agent = Agent(repository, home)
    agent.select()
    declare(repository, layout, "mine", "theirs")
    assert is_allowed(agent.write("src/a.py", "x\n"))
    assert "SCOPE_VIOLATION" in str(agent.write("docs/a.md", "x\n"))
    assert selected(repository) == f"INT-001~{UIDS['mine']}"
    assert {i.id for i in Gate.open(repository).rules.intents.intents} == {
        "INT-002",
        *(f"INT-001~{uid}" for uid in UIDS.values()),
    }
    [change] = records(repository, "mutation")
    assert (body(change)["intent_id"], body(change)["intent_uid"]) == ("INT-001", UIDS["mine"])
    assert [body(r)["name"] for r in records(repository, "intent_changed")].count("theirs") == 1

    second = Agent(repository, home, session="session-2")
    assert "Run: remit intent renumber INT-001" in str(second.select("INT-001"))
    assert "INVALID_INTENT_ID" in str(second.select(f"INT-001~{UIDS['theirs']}"))
    second.select("INT-002")
    assert is_allowed(second.write("lib/a.py", "x\n"))


CURES: dict[str, tuple[Callable[[Path, Layout], object], str]] = {
    "theirs is renumbered": (lambda root, _: renumber_intent(Gate.open(root).intents, "INT-001"), "INT-001"),
    "theirs goes": (lambda root, layout: declare(root, layout, "mine"), "INT-001"),
    "mine goes": (lambda root, layout: declare(root, layout, "theirs"), f"INT-001~{UIDS['mine']}"),
}


@pytest.mark.parametrize("cure", CURES)
def test_a_session_keeps_its_intent_whatever_becomes_of_the_label(
    repository: Path, home: Path, layout: Layout, cure: str
) -> None:
    agent = Agent(repository, home)
    agent.select()
    declare(repository, layout, "mine", "theirs")
    agent.ask("Read", file_path="src/a.py")
    mend, name = CURES[cure]
    mend(repository, layout)
    refused = agent.write("src/b.py", "x\n")
    assert selected(repository) == name
    assert is_allowed(refused) == (name == "INT-001")
    assert not is_allowed(agent.write("docs/b.md", "x\n"))
    declare(repository, layout, "mine")
    assert is_allowed(agent.write("src/c.py", "x\n"))


def test_mine_renumbered_takes_its_session_along(repository: Path, home: Path) -> None:
    governed(repository)
    declare(repository, "files", "mine")
    agent = Agent(repository, home)
    agent.select()
    declare(repository, "files", "mine", "theirs")
    _, new = renumber_intent(Gate.open(repository).intents, "INT-001", "INT-001-mine.yaml")
    assert is_allowed(agent.write("src/a.py", "x\n"))
    assert selected(repository) == new
    agent.ask("Bash", command=f"remit intent complete {new} --notes ran")
    assert "status: DONE" in (repository / ".orchestration/intents/INT-001-mine.yaml").read_text()


def test_a_doubled_intent_is_completed_by_its_label_or_name(repository: Path, home: Path) -> None:
    governed(repository)
    declare(repository, "files", "mine")
    agent = Agent(repository, home)
    agent.select()
    declare(repository, "files", "mine", "theirs")
    agent.ask("Bash", command="remit intent complete INT-001 --notes ran")
    folder = repository / ".orchestration/intents"
    assert "status: DONE" in (folder / "INT-001-mine.yaml").read_text()
    assert "status: DONE" not in (folder / "INT-001-theirs.yaml").read_text()


@pytest.mark.parametrize("barred", ["INT-001", f"intent: INT-001~{UIDS['mine']}  # not now"])
def test_a_line_of_intentignore_bars_by_label_and_by_uid(repository: Path, home: Path, barred: str) -> None:
    governed(repository)
    declare(repository, "files", "mine")
    agent = Agent(repository, home)
    agent.select()
    (repository / ".intentignore").write_text(f"{barred}\n")
    declare(repository, "files", "mine", "theirs")
    assert "INTENT_IGNORED" in str(agent.write("src/a.py", "x\n"))
    renumber_intent(Gate.open(repository).intents, "INT-001", "INT-001-theirs.yaml")
    assert "INTENT_IGNORED" in str(agent.write("src/a.py", "x\n"))


def test_a_binding_follows_its_intent_too(repository: Path, home: Path) -> None:
    governed(repository)
    declare(repository, "files", "mine")
    run(repository, "intent", "bind", "mine")
    declare(repository, "files", "mine", "theirs")
    _, new = renumber_intent(Gate.open(repository).intents, "INT-001", "INT-001-mine.yaml")
    agent = Agent(repository, home)
    agent.send("SessionStart", source="startup")
    assert is_allowed(agent.write("src/a.py", "x\n"))
    assert selected(repository) == new


def test_a_doubled_label_hides_no_wider_scope() -> None:
    narrow = Intent("INT-001", ("src/**",), status="IN_PROGRESS", created_at=TIMES["mine"])
    wide = Intent(f"INT-001~{UIDS['mine']}", ("**",), status="IN_PROGRESS", uid=UIDS["mine"])
    held, loosened = hold_stricter(RuleSet("enforce", intents=(narrow,)), RuleSet("enforce", intents=(wide,)))
    assert held.intents[0].owned_scope == ("src/**",)
    assert loosened


def test_a_fork_is_an_intent_of_its_own() -> None:
    old = Intent("INT-004", ("src/**",), uid=UIDS["mine"], created_at=TIMES["mine"], formerly=("INT-001",))
    made = draft_fork(old)
    assert (made.uid, made.formerly, made.created_at) == (None, (), None)


def test_zeros_mean_no_intent_without_a_latin_name() -> None:
    assert match_intents("0", [Intent("INT-111", (), name="日本")]) == []
