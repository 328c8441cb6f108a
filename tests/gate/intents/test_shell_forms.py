"""What Remit's tools do, done by a command in an agent's shell: the hook performs it for the session."""

from pathlib import Path
from typing import Any

import pytest

from gate.driving import Agent, allowed, body, governed, machine, records, refusal
from gate.people.test_ask import Person
from remit.gate.gate import Gate
from remit.gate.people.questions import ApprovalReply


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    """An agent without an intent, in enforce."""
    return Agent(governed(repository), home)


def ask(agent: Agent, command: str) -> dict[str, Any]:
    return agent.ask("Bash", command=command)


def reason(answer: dict[str, Any]) -> str:
    return str(answer.get("permissionDecisionReason", ""))


def selected(agent: Agent) -> list[str]:
    return [body(r)["intent_id"] for r in records(agent.cwd, "intent_selected")]


def test_a_selection_says_why_and_what_is_expected(agent: Agent) -> None:
    answer = ask(
        agent, "remit intent select INT-001 --reasoning 'the names' --expect src/a.py --expect=docs/b.md --json"
    )
    assert allowed(answer)
    assert "docs/b.md is outside the scope of INT-001" in answer["additionalContext"]
    detail = body(records(agent.cwd, "intent_selected")[-1])
    assert (detail["reasoning"], detail["expected_mutations"]) == ("the names", ["src/a.py", "docs/b.md"])


def test_the_first_refusal_names_a_command_that_ends_in_a_selection(agent: Agent) -> None:
    first = agent.write("src/a.py", "x\n")
    step = next(line for line in reason(first).splitlines() if line.startswith("Do: "))
    command = step.removeprefix("Do: run alone in your shell: ").partition("   (or ")[0]
    assert allowed(ask(agent, command))
    assert allowed(agent.write("src/a.py", "x\n"))


def test_where_the_session_has_used_the_tools_they_lead(agent: Agent) -> None:
    agent.ask("mcp__remit__list_active_intents")
    assert "\nDo: select_active_intent   (or run alone in your shell: remit intent select INT-001)\n" in reason(
        agent.write("src/a.py", "x\n")
    )


def test_in_one_command_with_others_it_is_to_be_run_by_itself(agent: Agent) -> None:
    commands = [
        "remit intent select INT-001; echo 1 > src/a.py",
        "cd . && remit intent select INT-001",
        "remit intent select INT-001 && remit intent show INT-001",
        "remit intent select INT-001 | cat",
        "echo $(remit intent select INT-001)",
    ]
    for command in commands:
        answer = ask(agent, command)
        assert refusal(answer) == "MISSING_OR_INVALID_INTENT", command
        assert "run it by itself, then the rest" in reason(answer)
    agent.select()
    for command in commands:
        answer = ask(agent, command.replace("select INT-001", "complete INT-001 --notes x"))
        assert refusal(answer) == "COMMAND_BLOCKED", command
        assert "run it by itself, then the rest" in reason(answer)
    assert selected(agent) == ["INT-001"]


def test_reading_commands_of_remit_may_stand_with_others(agent: Agent) -> None:
    agent.select()
    assert "by itself" not in reason(ask(agent, "remit intent list | head -3"))


def test_a_proposal_waits_for_the_person_and_is_made_at_a_yes(agent: Agent, home: Path) -> None:
    command = (
        "remit intent propose 'Rate limits' --scope 'src/auth/**' --criterion 'the sixth try fails' --why 'see #12'"
    )
    with Person(agent.cwd, home) as person:
        answer = ask(agent, command)
    assert allowed(answer), answer
    assert [question.action for question in person.asked] == ["propose_intent: Rate limits (owns src/auth/**)"]
    assert "The person said yes: INT-003" in answer["additionalContext"]
    made = Gate.open(agent.cwd, machine(home)).intents.get("INT-003")
    assert (made.owned_scope, [c.text for c in made.acceptance_criteria]) == (("src/auth/**",), ["the sixth try fails"])


def test_a_wider_scope_waits_for_the_person(agent: Agent, home: Path) -> None:
    agent.select()
    refused = agent.write("docs/x y.md", "x\n")
    assert "Do: run alone in your shell: remit intent widen 'docs/x y.md' --why" in reason(refused)
    with Person(agent.cwd, home):
        assert allowed(ask(agent, "remit intent widen 'docs/x y.md' --why 'it says how'"))
    assert allowed(agent.write("docs/x y.md", "x\n"))


@pytest.mark.parametrize("command", ["propose n --scope src/x --why w", "widen docs/x --why w"])
def test_without_a_person_or_at_a_no_nothing_changes(agent: Agent, home: Path, command: str) -> None:
    agent.select()
    answer = ask(agent, f"remit intent {command}")
    assert refusal(answer) == "USER_REJECTED"
    assert "Nobody is there to be asked" in reason(answer)
    with Person(agent.cwd, home, ApprovalReply(False, words="not now")):
        answer = ask(agent, f"remit intent {command}")
    assert "said no: not now" in reason(answer)
    document = Gate.open(agent.cwd, machine(home)).intents.document
    assert [(i.id, i.owned_scope) for i in document.intents] == [("INT-001", ("src/**",)), ("INT-002", ("docs/**",))]


def test_what_no_intent_may_own_is_refused_in_words(agent: Agent) -> None:
    agent.select()
    for words in (
        "propose n --scope '' --why w",
        "propose n --scope=/etc --why w",
        "widen '!x' --why w",
        "widen '' --why w",
    ):
        assert reason(ask(agent, f"remit intent {words}")).startswith("remit: "), words


def test_other_words_are_left_to_the_command_itself(agent: Agent) -> None:
    for words in ("select", "select INT-001 INT-002", "propose n", "widen --why w", "select INT-001 --as x"):
        assert allowed(ask(agent, f"remit intent {words}")), words
    assert selected(agent) == []
