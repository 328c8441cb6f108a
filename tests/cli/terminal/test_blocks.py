"""Blocks of a run as text, and answers as typed."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.core.untrusted_input import sanitise_text
from remit.gate.people.questions import ApprovalReply, Question
from remit_agent.faces.questions import can_flag_answer
from remit_agent.faces.terminal.blocks import BlockRenderer, StatusFields, TextBlocks
from remit_agent.faces.terminal.replies import parse_reply
from remit_agent.models.messages import ModelTurn, TextPart, ToolCallPart
from remit_agent.session.events import CallEnded, RetryWait, RunEvent
from remit_agent.session.journal.lines import (
    AnswerLine,
    EndedLine,
    QuestionLine,
    ResumedLine,
    RunLine,
    TurnLine,
    UserLine,
)
from remit_agent.session.run import PersonReply

EVIL = "\x1b]0;title\x07\x1b[2J\x1b[?1049h\r\u202eevil\x9b31m"
ASKED = Question("q1", "s", "remit", "INT-001", "SCOPE_VIOLATION", "write a.py", "out of scope", path="a.py", risk=10)


def plain(root: Path = Path("/repo")) -> BlockRenderer:
    return BlockRenderer(root, None, is_coloured=False)


def coloured() -> BlockRenderer:
    return BlockRenderer(Path("/repo"), 80, is_coloured=True)


def turn_event(*parts: TextPart | ToolCallPart) -> RunEvent:
    return RunEvent("turn", TurnLine(turn=ModelTurn(parts, "tool_calls")), 1)


DATA = [
    RunLine(run="r", cwd=EVIL, model=EVIL, mode="code"),
    UserLine(text=EVIL),
    UserLine(text=EVIL, by="remit"),
    TurnLine(turn=ModelTurn((TextPart(EVIL), ToolCallPart("c", EVIL, {"path": EVIL})), "tool_calls")),
    CallEnded("c", EVIL, "failed", EVIL, EVIL, data={"diff": EVIL}),
    CallEnded("c", EVIL, "denied", EVIL),
    QuestionLine(id="q", kind="followup", text=EVIL, choices=(EVIL,)),
    AnswerLine(id="q", by="person", words=EVIL),
    RetryWait(EVIL, 1.0, 1),
    EndedLine(state="failed", reason=EVIL),
    Question("q1", "s", EVIL, None, "SCOPE_VIOLATION", EVIL, EVIL, reasons=(EVIL,), diff=EVIL),
]


@pytest.mark.parametrize("data", DATA, ids=lambda data: type(data).__name__)
@pytest.mark.parametrize("renderer", [plain(), coloured()], ids=["plain", "coloured"])
def test_no_text_of_others_reaches_the_terminals_controls(renderer: BlockRenderer, data: object) -> None:
    block = renderer.render(RunEvent("turn", data, child="c"))
    assert block
    assert sanitise_text(block) == block
    assert "\x1b]" not in block
    assert "\u202e" not in block


def test_a_call_says_what_it_was_about_and_how_it_failed() -> None:
    renderer = plain()
    renderer.render(turn_event(ToolCallPart("c1", "read_file", {"path": "a.py"})))
    failure = '{"status":"error","error_type":"FILE_NOT_FOUND","error":"there is no a.py"}'
    assert renderer.render(RunEvent("call_ended", CallEnded("c1", "read_file", "failed", failure))) == (
        "✗ read_file a.py\n  there is no a.py"
    )
    assert renderer.render(RunEvent("call_ended", CallEnded("c1", "read_file", "done", "text"))) == "✓ read_file a.py"


def test_a_long_diff_is_cut_and_kept_whole_for_the_pager() -> None:
    renderer = coloured()
    diff = "\n".join(f"+line {number}" for number in range(100))
    block = renderer.render(RunEvent("call_ended", CallEnded("c1", "edit", "done", "", data={"diff": diff})))
    assert "line 39" in block
    assert "line 40" not in block
    assert "60 more lines; Ctrl-O shows all" in block
    assert renderer.last_detail == diff


def test_what_a_child_does_stands_in_a_frame() -> None:
    event = RunEvent("input", UserLine(text="one\ntwo"), 1, child="t1")
    assert plain().render(event) == "│ > one\n│ > two"


def test_events_that_change_nothing_visible_print_nothing() -> None:
    assert plain().render(RunEvent("text", None)) == ""
    assert plain().render(RunEvent("resumed", ResumedLine())) != ""


@given(st.lists(st.sampled_from(["word ", "\n", "\n\n", "```\n", "x = 1\n", "- item\n"]), max_size=40))
def test_streamed_blocks_are_the_whole_text_once_and_in_order(pieces: list[str]) -> None:
    blocks, printed = TextBlocks(), list[str]()
    whole = "".join(pieces)
    for piece in pieces:
        printed.append(blocks.add(piece))
    printed.append(blocks.finish(whole))
    assert "\n".join(printed).split() == whole.split()
    assert blocks.pending == blocks.printed == ""


def test_a_block_of_code_is_not_cut_at_its_empty_lines() -> None:
    blocks = TextBlocks()
    assert blocks.add("Before.\n\n```\nx = 1\n\ny = 2\n") == "Before."
    assert blocks.add("```\n\nAfter.") == "```\nx = 1\n\ny = 2\n```"
    assert blocks.pending == "After."


def test_a_turn_that_was_not_streamed_is_printed_whole() -> None:
    assert TextBlocks().finish("All of it.\n") == "All of it."


def test_the_line_of_states_says_unknown_where_it_is() -> None:
    fields = StatusFields("INT-001", "code", "anthropic:m", 12_345, 200_000, None, "edit a.py")
    assert fields.describe() == "INT-001 · code · anthropic:m · 12.3k/200k · $? · edit a.py"


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("y", ApprovalReply(True)),
        ("s", ApprovalReply(True, extent="session")),
        ("i", ApprovalReply(True, extent="intent")),
        ("no", ApprovalReply(False)),
        ("put it below src", ApprovalReply(False, "put it below src")),
        ("", None),
        ("i=/etc/*", None),
    ],
)
def test_a_card_is_answered_in_a_letter_or_a_reason(text: str, reply: ApprovalReply | None) -> None:
    assert parse_reply(ASKED, text) == reply


@pytest.mark.parametrize(
    ("kind", "choices", "text", "words"),
    [
        ("followup", ("red", "blue"), "2", "blue"),
        ("followup", ("red", "blue"), "3", "3"),
        ("followup", (), "green", "green"),
        ("mode", ("yes", "no"), "y", "yes"),
        ("limit", (), "go on", "go on"),
    ],
)
def test_a_question_of_the_run_is_answered_by_number_or_in_words(
    kind: str, choices: tuple[str, ...], text: str, words: str
) -> None:
    question = QuestionLine(id="q", kind=kind, text="?", choices=choices)  # type: ignore[arg-type]
    assert parse_reply(question, text) == PersonReply(words)


def test_a_flag_answers_the_threshold_for_files_only() -> None:
    threshold = Question("q", "s", "remit", None, "USER_REJECTED", "delete a.py", "risky", rule="threshold")
    assert can_flag_answer(threshold)
    assert not can_flag_answer(Question("q", "s", "remit", None, "USER_REJECTED", "x", "a hook asks", rule="hook"))
    command = Question("q", "s", "remit", None, "USER_REJECTED", "rm a", "risky", rule="threshold", is_command=True)
    assert not can_flag_answer(command)
    assert not can_flag_answer(ASKED)
