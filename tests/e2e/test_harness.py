"""The harness itself: a real client, a scripted model, a real hook."""

import json
from pathlib import Path

import pytest

from e2e.claude import TooSlow, hooks, run_claude
from remit.rehearsal.anthropic_wire import AnthropicWire
from remit.rehearsal.scripted_model import ModelRequest, Say, ScriptedModel, Use

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("claude_code")]


def test_a_scripted_write_lands_and_a_hook_hears_of_it(repository: Path, home: Path, tmp_path: Path) -> None:
    heard = tmp_path / "heard.json"
    target = repository / "note.txt"
    write = Use("Write", {"file_path": str(target), "content": "one\ntwo\n"}, id="toolu_scripted")
    model = ScriptedModel([write, Say("all done")])
    with AnthropicWire(model).serve() as wire:
        done = run_claude(repository, home, wire.url, "write a note", settings=hooks(f"cat > '{heard}'", "PreToolUse"))
        told = wire.tool_result_texts()
    assert done.returncode == 0, done
    assert done.stdout.strip() == "all done"
    assert target.read_text() == "one\ntwo\n"
    payload = json.loads(heard.read_bytes())
    assert payload["tool_use_id"] == "toolu_scripted"
    assert payload["tool_input"] == {"file_path": str(target), "content": "one\ntwo\n"}
    assert "File created successfully" in told[0]
    assert model.remaining == 0


def test_a_hook_that_denies_reaches_the_model(repository: Path, home: Path) -> None:
    def after_the_denial(seen: ModelRequest) -> Say:
        assert seen.last_result is not None
        assert seen.last_result.is_error
        return Say("I was told: " + seen.last_result.text)

    write = Use("Write", {"file_path": str(repository / "note.txt"), "content": "x"})
    deny = hooks("echo 'not in your scope' >&2; exit 2", "PreToolUse")
    with AnthropicWire(ScriptedModel([write, after_the_denial])).serve() as wire:
        done = run_claude(repository, home, wire.url, "write a note", settings=deny)
    assert "not in your scope" in done.stdout
    assert not (repository / "note.txt").exists()


def test_a_subagent_follows_its_own_script(repository: Path, home: Path) -> None:
    ask = Use("Agent", {"description": "d", "prompt": "SUBTASK", "subagent_type": "general-purpose"})
    write = Use("Write", {"file_path": str(repository / "sub.txt"), "content": "s\n"})
    model = ScriptedModel([ask, Say("waiting"), Say("heard")], {"SUBTASK": [write, Say("sub done")]})
    with AnthropicWire(model).serve() as wire:
        done = run_claude(repository, home, wire.url, "delegate")
    assert (repository / "sub.txt").read_text() == "s\n", done
    assert done.stdout.split() == ["waiting", "heard"]


def test_a_run_beyond_its_time_is_ended(repository: Path, home: Path) -> None:
    slow = Use("Bash", {"command": "python3 -c 'import time; time.sleep(29)'"})
    with AnthropicWire(ScriptedModel([slow])).serve() as wire, pytest.raises(TooSlow):
        run_claude(repository, home, wire.url, "sleep", timeout_s=3)
