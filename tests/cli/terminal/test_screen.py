"""The agent's terminal in a real tmux: what is finished stands once in the scrollback, and keys do what they say."""

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.running import MAIN
from cli.terminal.terminals import FORBIDDEN, Terminal
from gate.driving import governed
from remit.rehearsal.anthropic_wire import AnthropicWire
from remit.rehearsal.scripted_model import Say, ScriptedModel, Use
from remit.rehearsal.wire_faults import put_fault
from remit_agent.faces.terminal.screen import QUIET_S

SCROLL_REGION = re.compile(r"\x1b\[\d+;\d+r")
DONE = {"tool": "attempt_completion", "input": {"result": "All of it is done."}}
WRITTEN = {"path": "new.py", "content": "x = 1\n", "intent_id": "INT-001", "mutation_class": "BUG_FIX"}
WRITE = {"tool": "write_to_file", "input": WRITTEN}
PLACE = {"path": "src/app.py"}
CLOCKED_RUN = Path(__file__).with_name("clocked_run.py")


@pytest.fixture
def terminal(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Terminal]:
    found = Terminal(tmp_path, getattr(request, "param", (100, 30)))
    yield found
    found.close()


def start(terminal: Terminal, repository: Path, turns: list[list[Any]]) -> None:
    script = terminal.stream.with_name("script.json")
    script.write_text(json.dumps(turns))
    start_model(terminal, repository, f"scripted:{script}")


def start_model(terminal: Terminal, repository: Path, model: str, *task: str, **variables: str) -> None:
    command = [sys.executable, str(CLOCKED_RUN), str(terminal.clock), model, *task]
    kept = {name: os.environ[name] for name in ("HOME", "PATH")}
    terminal.start(command, repository, {**kept, "TERM": "screen-256color", **variables})
    terminal.wait_to_see(lambda lines: any("no intent" in line or "code ·" in line for line in lines))


def is_idle(lines: list[str]) -> bool:
    return any(line.startswith("· ") for line in lines[-40:])


def is_asked(lines: list[str]) -> bool:
    """Return whether a card is shown, and the prompt is empty."""
    return any(line.endswith("reason why not:") for line in lines)


SIZES = [(100, 30), (60, 12)]


@pytest.mark.parametrize("terminal", SIZES, indirect=True)
def test_every_finished_line_stands_once_and_in_order_through_resizes(terminal: Terminal, repository: Path) -> None:
    said = [f"- line {number:03}" for number in range(300)]
    turns = [
        [
            {"say": "\n".join(said[at : at + 10])},
            {"tool": "read_file", "input": {"path": "src/app.py", "limit": at + 1}},
        ]
        for at in range(0, 300, 10)
    ]
    start(terminal, repository, [*turns, [DONE]])
    terminal.write("go")
    terminal.press("Enter")
    columns, rows = terminal.size
    for number, size in ((40, (columns - 20, rows)), (120, (columns + 15, rows + 6)), (200, (columns, rows - 3))):
        terminal.wait_to_see(f"line {number:03}")
        terminal.resize(*size)
    lines = terminal.wait_to_see("All of it is done.")
    found = [int(match[1]) for line in lines if (match := re.search(r"line (\d{3})\b", line))]
    assert found == list(range(300))
    stream = terminal.read_stream()
    assert [code for code in FORBIDDEN if code in stream] == []
    assert SCROLL_REGION.search(stream) is None


def test_the_live_lines_are_at_most_six(terminal: Terminal, repository: Path) -> None:
    start(terminal, repository, [[DONE]])
    terminal.write("first\\n")
    terminal.press("C-j")
    terminal.write("second")
    terminal.press("C-j")
    terminal.write("third")
    terminal.wait_to_see("third")
    screen = [line for line in terminal.read_screen() if line]
    prompt = next(at for at, line in enumerate(screen) if line.startswith("second"))
    assert len(screen) - prompt <= 6


def test_a_conversation_goes_on_after_its_answer_and_can_be_resumed(terminal: Terminal, repository: Path) -> None:
    start(terminal, repository, [[{"say": "The first **answer**."}], [{"say": "The second answer."}]])
    for word, answer in (("one", "The first answer."), ("two", "The second answer.")):
        terminal.write(word)
        terminal.press("Enter")
        terminal.wait_to_see(answer)
        terminal.wait_to_see(is_idle)
    terminal.press("C-d")
    lines = terminal.wait_to_see("exit 0")
    assert sum("The first answer." in line for line in lines) == 1
    assert any(re.fullmatch(r"go on with: remit run --resume [0-9a-f-]{36}", line) for line in lines)


def test_a_card_takes_no_letter_that_was_typed_ahead(terminal: Terminal, repository: Path) -> None:
    governed(repository)
    start(terminal, repository, [[WRITE], [DONE]])
    terminal.write("go")
    terminal.press("Enter")
    terminal.wait_to_see(is_asked)
    terminal.press("y")
    terminal.wait_to_see("why not: y")
    for _ in range(3):  # a person who goes on typing: after each key the prompt is empty, and it is never quiet
        terminal.pass_time(0.6 * QUIET_S)
        terminal.press("C-u")
        terminal.wait_to_see(is_asked)
        terminal.pass_time(0.6 * QUIET_S)
        terminal.press("y")
        terminal.wait_to_see("why not: y")
    assert not (repository / "new.py").exists(), "the card was answered by letters typed ahead"
    terminal.press("C-u")
    terminal.wait_to_see(is_asked)
    terminal.pass_time(2 * QUIET_S)
    terminal.write("y")
    terminal.wait_to_see("All of it is done.")
    assert (repository / "new.py").read_text() == "x = 1\n"


def test_words_begun_before_a_card_go_to_the_model(terminal: Terminal, repository: Path) -> None:
    governed(repository)

    def write_late(_: object) -> Use:
        terminal.wait_to_see("> mind the tests")
        return Use("write_to_file", WRITTEN)

    with AnthropicWire(
        ScriptedModel([write_late, Use("attempt_completion", {"result": "All of it is done."})])
    ).serve() as wire:
        known = {"ANTHROPIC_API_KEY": "dummy", "ANTHROPIC_BASE_URL": wire.url}
        start_model(terminal, repository, "anthropic:m-1", **known)
        terminal.write("go")
        terminal.press("Enter")
        terminal.wait_to_see(lambda _: len(wire.requests) == 1)
        terminal.write("mind the tests")
        terminal.wait_to_see(lambda lines: any(line.endswith("why not: mind the tests") for line in lines))
        terminal.pass_time(2 * QUIET_S)
        terminal.press("Enter")
        terminal.wait_to_see(is_asked)
        assert not (repository / "new.py").exists()
        terminal.pass_time(2 * QUIET_S)
        terminal.write("y")
        terminal.wait_to_see("All of it is done.")
    assert (repository / "new.py").read_text() == "x = 1\n"
    assert "mind the tests" in str(wire.requests[-1].messages)


def test_the_intent_that_the_model_selects_is_shown_while_it_works(terminal: Terminal, repository: Path) -> None:
    governed(repository)
    seen = list[str]()

    def look(_: object) -> Use:
        seen.extend(terminal.wait_to_see("INT-001 · code"))
        return Use("attempt_completion", {"result": "All of it is done."})

    model = ScriptedModel([Use("select_active_intent", {"intent_id": "INT-001"}), look])
    with AnthropicWire(model).serve() as wire:
        known = {"ANTHROPIC_API_KEY": "dummy", "ANTHROPIC_BASE_URL": wire.url}
        start_model(terminal, repository, "anthropic:m-1", "go", **known)
        terminal.wait_to_see("All of it is done.")
    assert seen


def test_a_no_brings_its_reason_to_the_model(terminal: Terminal, repository: Path) -> None:
    governed(repository)
    start(terminal, repository, [[WRITE], [DONE]])
    terminal.write("go")
    terminal.press("Enter")
    terminal.wait_to_see("y once")
    terminal.pass_time(2 * QUIET_S)
    terminal.write("n")
    terminal.wait_to_see(lambda lines: "why not:" in lines)
    terminal.write("put it below src")
    terminal.wait_to_see("why not: put it below src")
    terminal.pass_time(2 * QUIET_S)
    terminal.press("Enter")
    lines = terminal.wait_to_see("All of it is done.")
    assert any("put it below src" in line for line in lines)
    assert not (repository / "new.py").exists()


def test_a_question_of_the_agent_is_answered_by_its_number(terminal: Terminal, repository: Path) -> None:
    given = {"question": "Which colour?", "follow_up": [{"text": "red"}, {"text": "blue"}]}
    start(terminal, repository, [[{"tool": "ask_followup_question", "input": given}], [DONE]])
    terminal.write("go")
    terminal.press("Enter")
    terminal.wait_to_see("Which colour?")
    terminal.wait_to_see("a number, or your own words:")
    terminal.pass_time(2 * QUIET_S)
    terminal.write("2")
    terminal.press("Enter")
    terminal.wait_to_see("answered: blue")
    terminal.wait_to_see("All of it is done.")


def test_escape_cancels_a_request_and_the_conversation_stays(terminal: Terminal, repository: Path) -> None:
    with AnthropicWire(ScriptedModel([Say("never whole"), Say("The next answer.")])).serve() as wire:
        put_fault(wire, "silence")
        known = {"ANTHROPIC_API_KEY": "dummy", "ANTHROPIC_BASE_URL": wire.url}
        start_model(terminal, repository, "anthropic:m-1", **known)
        terminal.write("go")
        terminal.press("Enter")
        terminal.wait_to_see(lambda _: len(wire.requests) == 1)
        terminal.press("Escape")
        terminal.wait_to_see(is_idle)
        terminal.write("again")
        terminal.press("Enter")
        terminal.wait_to_see("The next answer.")


def test_a_long_paste_is_a_mark_in_the_prompt_and_whole_in_the_message(terminal: Terminal, repository: Path) -> None:
    start(terminal, repository, [[{"say": "Read."}]])
    pasted = terminal.stream.with_name("pasted")
    pasted.write_text("\n".join(f"pasted {number}" for number in range(240)))
    terminal.tmux("load-buffer", str(pasted))
    terminal.tmux("paste-buffer", "-p")
    terminal.wait_to_see("[paste 1: 240 lines]")
    terminal.press("Enter")
    lines = terminal.wait_to_see("> pasted 239")
    assert any("> pasted 0" in line for line in lines)


def test_commands_modes_and_leaving(terminal: Terminal, repository: Path) -> None:
    start(terminal, repository, [[DONE]])
    terminal.wait_to_see("run ")
    terminal.write("/cos")
    terminal.press("Tab", "Enter")
    terminal.wait_to_see("0.0k")
    terminal.press("BTab")
    terminal.wait_to_see("mode: architect (by person)")
    terminal.write("/model scripted:" + str(terminal.stream.with_name("script.json")))
    terminal.press("Enter")
    terminal.wait_to_see("model: scripted:")
    terminal.write("/model anthropic:m")
    terminal.press("Enter")
    terminal.wait_to_see("there is no key for anthropic")
    terminal.wait_to_see(lambda lines: any(line.startswith("hint: set ANTHROPIC_API_KEY") for line in lines))
    terminal.write("/later")
    terminal.press("Enter")
    terminal.wait_to_see("expected: /later WORDS")
    terminal.write("/nothing")
    terminal.press("Enter")
    terminal.wait_to_see("there is no /nothing")
    terminal.press("C-c", "C-c")
    terminal.wait_to_see("exit 0")
    terminal.wait_to_see("Ctrl-C again leaves")


def test_a_terminal_that_shows_no_run_says_why(terminal: Terminal, repository: Path) -> None:
    words = [sys.executable, "-c", MAIN, "run", "--model", "anthropic:m"]
    kept = {name: os.environ[name] for name in ("HOME", "PATH")}
    terminal.start(words, repository, {**kept, "TERM": "screen-256color"})
    lines = terminal.wait_to_see("exit 2")
    assert any("there is no key for anthropic" in line for line in lines)
    assert any("set ANTHROPIC_API_KEY" in line for line in lines)
