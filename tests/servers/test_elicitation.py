"""A person asked through the agent's own dialog: by the official client, in both eras of the protocol."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import CallToolRequestParams, CallToolResult, ElicitRequestParams, ElicitResult, Implementation

from coroutines import run_coroutine
from gate.driving import INTENTS, Agent, body, governed, machine, records
from remit.core.call import SessionKey
from remit.gate.gate import Gate
from remit.gate.people.questions import Question
from remit.servers.mcp import REQUEST_KEY, Elicitations, parse_reply
from remit.tools.agent_tool import Caller, NeedsPerson

ERAS = ("auto", "legacy")
META = {"claudecode/toolUseId": "toolu_1"}
PROPOSAL: dict[str, Any] = {"name": "Speed", "owned_scope": ["perf/**"], "reason": "it is slow"}
YES = ElicitResult(action="accept", content={"answer": "yes"})
VERIFIED = INTENTS.replace("acceptance_criteria: [it works]", "acceptance_criteria: [{text: it works, verify: make}]")


class Shown:
    """The client's side: what it showed, and the answer it gave."""

    def __init__(self, answer: ElicitResult | None) -> None:
        self.answer = answer
        self.messages: list[str] = []

    async def __call__(self, context: Any, params: ElicitRequestParams) -> ElicitResult:
        self.messages.append(params.message)
        assert self.answer is not None
        return self.answer


class Desk:
    """A governed workspace, a session of some agent in it, and a client below a program of some name."""

    def __init__(self, root: Path, home: Path, intents: str = INTENTS) -> None:
        self.root, self.home = governed(root, intents=intents), home
        self.words = [sys.executable, "-m", "remit", "mcp", "--direct"]
        self.agent = Agent(root, home)

    def call(
        self,
        shown: Shown,
        *,
        mode: str = "auto",
        tool: str = "propose_intent",
        given: dict[str, Any] | None = None,
        above: str = "claude",
        announced: bool = True,
    ) -> CallToolResult:
        given = PROPOSAL if given is None else given
        if announced:
            self.agent.ask(f"mcp__remit__{tool}", "toolu_1", **given)
        client = self.home / above
        client.write_text('#!/bin/sh\n"$@"\n')
        client.chmod(0o755)
        source = str(Path(sys.modules["remit"].__path__[0]).parent)
        environment = {
            "HOME": str(self.home),
            "PATH": "/usr/bin:/bin",
            "GIT_CONFIG_NOSYSTEM": "1",
            "PYTHONPATH": source,
        }
        server = StdioServerParameters(
            command=str(client),
            args=[sys.executable, "-m", "remit", "mcp", "--direct"],
            cwd=str(self.root),
            env=environment,
        )

        async def run() -> CallToolResult:
            about = Implementation(name="claude-code", version="1")
            callback = shown if shown.answer is not None else None
            async with Client(
                stdio_client(server), client_info=about, mode=mode, elicitation_callback=callback
            ) as found:
                meta: Any = META
                return await found.call_tool(tool, given, meta=meta)

        return run_coroutine(run())

    def answers(self) -> list[tuple[str, str]]:
        found = [body(r)["approval"] for r in records(self.root, "approval_answered")]
        return [(a["by"], a["answer"]) for a in found]


@pytest.fixture
def desk(repository: Path, home: Path) -> Callable[..., Desk]:
    def made(intents: str = INTENTS) -> Desk:
        return Desk(repository, home, intents)

    return made


def text(result: CallToolResult) -> str:
    return "".join(getattr(block, "text", "") for block in result.content)


@pytest.mark.parametrize("mode", ERAS)
def test_a_yes_in_the_dialog_makes_the_intent(desk: Callable[..., Desk], mode: str) -> None:
    found, shown = desk(), Shown(YES)
    result = found.call(shown, mode=mode)
    assert not result.is_error, text(result)
    assert Gate.open(found.root, machine(found.home)).intents.get("INT-003").owned_scope == ("perf/**",)
    [message] = shown.messages
    assert "a new intent\nSpeed" in message
    assert "  perf/** (new)" in message
    assert "it is slow" in message
    assert "Risk 20 of 100" in message
    assert found.answers() == [("elicitation", "allow")]
    [asked] = [body(r)["approval"] for r in records(found.root, "approval_requested")]
    assert asked["through"] == "elicitation"


@pytest.mark.parametrize(
    ("mode", "answer", "by", "words"),
    [
        ("auto", ElicitResult(action="accept", content={"answer": "no", "words": "not now"}), "elicitation", "not now"),
        ("legacy", ElicitResult(action="decline"), "elicitation", "declined, or the agent did not show it"),
        ("auto", ElicitResult(action="cancel"), "nobody", "they can run `remit intent new Speed"),
    ],
)
def test_all_else_is_no(desk: Callable[..., Desk], mode: str, answer: ElicitResult, by: str, words: str) -> None:
    found = desk()
    result = found.call(Shown(answer), mode=mode)
    assert result.is_error
    assert words in text(result)
    assert found.answers() == [(by, "deny")]
    assert Gate.open(found.root, machine(found.home)).intents.find_intent("INT-003") is None


@pytest.mark.parametrize(
    ("action", "content", "yes"),
    [
        ("accept", {"answer": "yes"}, True),
        ("accept", {"answer": "no"}, False),
        ("accept", {"answer": "YES"}, None),
        ("accept", {"answer": ["yes"]}, None),
        ("accept", {}, None),
        ("accept", None, None),
        ("cancel", {"answer": "yes"}, None),
        ("decline", {"answer": "yes"}, False),
    ],
)
def test_only_a_yes_to_the_question_is_a_yes(action: Any, content: Any, yes: bool | None) -> None:
    reply = parse_reply(ElicitResult(action=action, content=content))
    assert (reply.allow if reply else None) is yes


def test_an_answer_to_another_call_is_none() -> None:
    dialogs = Elicitations()
    question = Question("q", "s", "claude-code", None, "SCOPE_VIOLATION", "x", "m", expires_at=100)
    needed = NeedsPerson(Caller(SessionKey("s"), "claude-code", has_dialog=True), question)

    def again(name: str = "t", token: str | None = None, now: float = 50, **arguments: Any) -> Caller | None:
        state = token or dialogs.request_answer(needed, "t", {"a": 1}).request_state
        params = CallToolRequestParams(
            name=name, arguments=arguments or {"a": 1}, request_state=state, input_responses={REQUEST_KEY: YES}
        )
        return dialogs.resume_call(params, now)

    def said(caller: Caller | None) -> Any:
        return caller and caller.dialog_answer and caller.dialog_answer.reply

    assert said(again()).allow
    assert (again(name="u"), again(a=2), again(token="guessed")) == (None, None, None)
    assert said(again(now=101)) is None
    token = dialogs.request_answer(needed, "t", {"a": 1}).request_state
    assert (again(token=token) is None, again(token=token) is None) == (False, True)


def test_a_scope_grows_by_a_yes_in_the_dialog(desk: Callable[..., Desk]) -> None:
    found = desk()
    found.agent.select()
    given = {"paths": ["docs/new.md"], "reason": "a page"}
    result = found.call(Shown(YES), tool="request_scope_expansion", given=given)
    assert not result.is_error, text(result)
    gate = Gate.open(found.root, machine(found.home))
    assert gate.intents.get("INT-001").owned_scope == ("src/**", "docs/new.md")


def test_a_person_may_vouch_for_criteria_that_were_not_run(desk: Callable[..., Desk]) -> None:
    found, shown = desk(VERIFIED), Shown(YES)
    found.agent.select()
    given = {"intent_id": "INT-001", "verification_notes": "done"}
    result = found.call(shown, mode="legacy", tool="complete_intent", given=given)
    assert not result.is_error, text(result)
    assert "these criteria are met: it works" in shown.messages[0]
    assert Gate.open(found.root, machine(found.home)).intents.get("INT-001").status == "DONE"


def test_without_a_yes_such_an_intent_is_not_done(desk: Callable[..., Desk]) -> None:
    found = desk(VERIFIED)
    found.agent.select()
    given = {"intent_id": "INT-001", "verification_notes": "done"}
    assert found.call(Shown(ElicitResult(action="decline")), tool="complete_intent", given=given).is_error
    assert Gate.open(found.root, machine(found.home)).intents.get("INT-001").status == "IN_PROGRESS"


@pytest.mark.parametrize(
    ("mode", "shown", "above", "announced"),
    [
        ("auto", Shown(None), "claude", True),  # it declares no dialog
        ("legacy", Shown(YES), "python-of-the-agent", True),  # the agent started a program that says it is the agent
        ("auto", Shown(YES), "claude", False),  # no hook announced the call
    ],
)
def test_nobody_is_asked_where_no_person_would_see_it(
    desk: Callable[..., Desk], mode: str, shown: Shown, above: str, announced: bool
) -> None:
    found = desk()
    result = found.call(shown, mode=mode, above=above, announced=announced)
    assert result.is_error
    assert shown.messages == []
    assert found.answers() == []
    assert Gate.open(found.root, machine(found.home)).intents.find_intent("INT-003") is None
