"""`remit run` without a terminal: lines, JSON events, exit codes, runs that go on, exports."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.running import MAIN, run
from forked_commands import run_in_bytes
from gate.driving import governed
from remit.rehearsal.anthropic_wire import AnthropicWire
from remit.rehearsal.openai_wires import ChatWire
from remit.rehearsal.scripted_model import Say, ScriptedModel, Use
from remit.rehearsal.wire_faults import put_fault
from waiting import wait_until

EDIT = {"path": "src/app.py", "content": "def main():\n    return 2\n"}
CITED = {**EDIT, "intent_id": "INT-001", "mutation_class": "BUG_FIX"}


def call(tool: str, **given: Any) -> dict[str, Any]:
    return {"tool": tool, "input": given}


DONE = call("attempt_completion", result="All of it is done.")


@pytest.fixture
def script(tmp_path: Path) -> Any:
    def write(*turns: list[dict[str, Any]]) -> str:
        path = tmp_path / "script.json"
        path.write_text(json.dumps(turns))
        return f"scripted:{path}"

    return write


def events_of(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_task_runs_to_its_completion_in_plain_lines(repository: Path, script: Any) -> None:
    model = script([{"say": "I change it."}, call("write_to_file", **EDIT)], [DONE])
    done = run(repository, "run", "change it", "--model", model)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[1:] == [
        "> change it",
        "I change it.",
        "✓ write_to_file src/app.py",
        *[line for line in lines if line.startswith("  ")],
        "completed All of it is done.",
    ]
    assert (repository / "src" / "app.py").read_text() == EDIT["content"]
    assert "\x1b" not in done.stdout


def test_events_are_json_lines_and_the_last_is_the_end(repository: Path, script: Any) -> None:
    done = run(repository, "run", "-", "--json", "--model", script([DONE]), typed="change it\n")
    assert done.returncode == 0, done.stderr
    events = events_of(done)
    assert [event["event"] for event in events][:2] == ["started", "input"]
    assert events[1]["data"]["text"] == "change it"
    assert events[-1]["event"] == "ended"
    assert events[-1]["data"]["state"] == "completed"
    numbers = [event["n"] for event in events if "n" in event]
    assert numbers == sorted(set(numbers))


def test_a_denied_call_is_told_and_nothing_asks_where_nobody_is(repository: Path, script: Any) -> None:
    governed(repository)
    model = script([call("write_to_file", **{**CITED, "path": "other.py"})], [DONE])
    done = run(repository, "run", "change it", "--intent", "INT-001", "--model", model)
    assert "⊘ write_to_file other.py" in done.stdout
    assert "SCOPE" in done.stdout
    assert not (repository / "other.py").exists()


def test_lines_are_blamed_on_the_agent_and_its_intent(repository: Path, script: Any) -> None:
    governed(repository)
    done = run(
        repository, "run", "x", "--intent", "INT-001", "--model", script([call("write_to_file", **CITED)], [DONE])
    )
    assert done.returncode == 0, done.stdout + done.stderr
    blamed = run(repository, "blame", "--json", "src/app.py")
    lines = json.loads(blamed.stdout)["data"]["lines"]
    assert (lines[1]["origin"], lines[1]["agent"], lines[1]["intent_id"]) == ("ai", "remit", "INT-001")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "no task"),
        (("x",), 2, "no model is named"),
        (("x", "--model", "nobody:m"), 2, "names no known provider"),
        (("x", "--model", "anthropic:m"), 2, "there is no key for anthropic"),
        (("x", "--model", "vertex:m"), 2, "gcloud auth application-default login"),
        (("x", "--model", "scripted:/nothing"), 2, "names no script"),
        (("x", "--resume", "nothing", "--model", "scripted:/nothing"), 2, ""),
        (("x", "--mode", "nomode", "--model", "openai-compatible:m"), 2, "one of architect, code, "),
        (("--print-prompt", "--mode", "nomode", "--model", "openai-compatible:m"), 2, "one of architect, code, "),
        (("--export", "nothing"), 2, "remit run --list"),
        (("--fork", "a:b", "--model", "scripted:/x"), 2, "is no line of a run"),
        (("--set-key", "anthropic"), 2, "there is no key on standard input"),
    ],
)
def test_what_cannot_be_run_says_why(repository: Path, words: tuple[str, ...], code: int, said: str) -> None:
    done = run(repository, "run", *words)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_task_that_is_no_text_is_refused(repository: Path) -> None:
    done = run_in_bytes(["run", "-"], repository, given=b"\xff\xfe")
    assert done.returncode == 2
    assert b"the task has to be UTF-8" in done.stderr


def test_an_intent_that_cannot_be_selected_leaves_no_run(repository: Path, script: Any) -> None:
    governed(repository)
    done = run(repository, "run", "x", "--intent", "INT-999", "--model", script([DONE]))
    assert done.returncode == 3
    assert "remit intent list" in done.stderr
    assert "no runs" in run(repository, "run", "--list").stdout


@pytest.mark.parametrize("text", ["[run\n", "[run]\nmodell = 'anthropic:m'\n"])
def test_a_broken_configuration_is_named_and_nothing_runs(repository: Path, script: Any, text: str) -> None:
    root = governed(repository)
    (root / ".orchestration" / "remit.toml").write_text(text)
    done = run(repository, "run", "x", "--model", script([DONE]))
    assert done.returncode == 2
    assert ".orchestration/remit.toml cannot be used" in done.stderr


def test_outside_of_a_repository_nothing_runs(tmp_path: Path, script: Any) -> None:
    done = run(tmp_path, "run", "x", "--model", script([DONE]))
    assert done.returncode == 2
    assert "git init" in done.stderr


def test_a_script_of_the_repositorys_own_is_started_by_a_person_only(repository: Path, script: Any) -> None:
    governed(repository)
    config = repository / ".orchestration" / "remit.toml"
    config.write_text(f"{config.read_text() if config.exists() else ''}\n[run]\nmodel = '{script([DONE])}'\n")
    done = run(repository, "run", "x")
    assert done.returncode == 2
    assert "names a script" in done.stderr


def test_limits_end_a_run_with_1(repository: Path, script: Any) -> None:
    reads = [[call("read_file", path="README.md", limit=number + 1)] for number in range(9)]
    done = run(repository, "run", "x", "--max-turns", "2", "--model", script(*reads))
    assert done.returncode == 1
    assert "stopped the limit of 2 turns is reached" in done.stdout


def test_an_unknown_price_is_no_price_of_nothing(repository: Path) -> None:
    with ChatWire(ScriptedModel([Use("read_file", {"path": "README.md"})] * 3)).serve() as wire:
        done = run(
            repository, "run", "x", "--max-cost", "5", "--model", "openai-compatible:m",
            OPENAI_COMPATIBLE_BASE_URL=f"{wire.url}/v1",
        )  # fmt: skip
    assert done.returncode == 1
    assert "the price of the model is unknown" in done.stdout


@pytest.mark.live
def test_a_real_provider_is_reached_by_its_variables(repository: Path) -> None:
    turns = [(Say("I read."), Use("read_file", {"path": "README.md"})), Use("attempt_completion", {"result": "Read."})]
    with AnthropicWire(ScriptedModel(turns)).serve() as wire:
        put_fault(wire, "overloaded")
        known = {"ANTHROPIC_API_KEY": "sk-ant-dummy", "ANTHROPIC_BASE_URL": wire.url, "REMIT_MODEL": "anthropic:m-1"}
        done = run(repository, "run", "read", "--json", **known)
        names = {tool.name for tool in wire.requests[-1].tools}
    events = events_of(done)
    assert done.returncode == 0, done.stderr
    assert [event["data"]["why"] for event in events if event["event"] == "waiting"] == [
        "overloaded: 529: a fault of the test"
    ]
    assert events[-1]["data"]["reason"] == "Read."
    assert {"read_file", "edit", "write_to_file", "execute_command"} <= names
    assert "sk-ant-dummy" not in done.stdout + done.stderr


def test_a_key_that_is_refused_ends_with_2_and_no_retries(repository: Path) -> None:
    with AnthropicWire(ScriptedModel([])).serve() as wire:
        wire.answer = lambda method, path, body: wire.refusal(401, "invalid x-api-key")  # type: ignore[method-assign]
        known = {"ANTHROPIC_API_KEY": "dummy", "ANTHROPIC_BASE_URL": wire.url}
        done = run(repository, "run", "read", "--model", "anthropic:m-1", **known)
    assert done.returncode == 2
    assert "failed auth: 401: invalid x-api-key" in done.stdout


def test_runs_are_listed_taken_up_again_and_copied(repository: Path, script: Any) -> None:
    model = script([{"say": "One."}], [{"say": "Two."}], [DONE], [{"say": "Four."}], [DONE])
    first = run(repository, "run", "begin", "--max-turns", "1", "--model", model)
    assert first.returncode == 1
    [listed] = json.loads(run(repository, "run", "--list", "--json").stdout)["data"]
    assert (listed["task"], listed["state"], listed["model"]) == ("begin", "stopped", model)
    assert listed["id"] in run(repository, "run", "--list").stdout
    again = run(repository, "run", "go on", "--resume", "--json", "--max-turns", "9")
    events = events_of(again)
    assert [event["data"]["text"] for event in events if event["event"] == "input"][:2] == ["begin", "go on"]
    for place in ("0", "999"):
        refused = run(repository, "run", "x", "--fork", f"{listed['id']}:{place}")
        assert refused.returncode == 2
        assert f"has no line {place}: it has the lines 1 to " in refused.stderr
    copied = run(repository, "run", "another way", "--fork", listed["id"])
    assert "another way" in copied.stdout
    assert len(json.loads(run(repository, "run", "--list", "--json").stdout)["data"]) == 2


def test_a_run_is_exported_without_secrets(repository: Path, script: Any) -> None:
    secret = "AKIAIOSFODNN7EXAMPLE"
    model = script([{"say": f"The key is {secret}."}, call("read_file", path="README.md")], [DONE])
    run(repository, "run", f"use {secret}", "--model", model)
    [listed] = json.loads(run(repository, "run", "--list", "--json").stdout)["data"]
    forms = {
        form: run(repository, "run", "--export", listed["id"], "--as", form).stdout for form in ("md", "jsonl", "roo")
    }
    assert all(secret not in text and "read_file" in text for text in forms.values())
    assert forms["md"].startswith(f"# Run {listed['id']}")
    assert json.loads(forms["jsonl"].splitlines()[0])["t"] == "run"
    roo = json.loads(forms["roo"])
    assert roo["task_metadata.json"]["task"].startswith("use ")
    roles = [message["role"] for message in roo["api_conversation_history.json"]]
    assert roles[0] == "user"
    assert "assistant" in roles


def test_the_prompt_is_printed_the_same_twice(repository: Path) -> None:
    first, second = (run(repository, "run", "--print-prompt", "--model", "anthropic:m").stdout for _ in range(2))
    assert first == second
    assert '"name": "read_file"' in first
    assert "Git root" in first


@pytest.mark.live
def test_an_image_is_shown_to_the_model(repository: Path, tmp_path: Path) -> None:
    image = tmp_path / "shot.png"
    image.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(20))
    bodies: list[bytes] = []
    with AnthropicWire(ScriptedModel([Use("attempt_completion", {"result": "Seen."})])).serve() as wire:
        answer = wire.answer
        wire.answer = lambda method, path, body: bodies.append(body) or answer(method, path, body)  # type: ignore[method-assign, func-returns-value]
        known = {"ANTHROPIC_API_KEY": "dummy", "ANTHROPIC_BASE_URL": wire.url}
        done = run(repository, "run", "look", "--image", str(image), "--model", "anthropic:m-1", **known)
    assert done.returncode == 0, done.stderr
    assert b"iVBORw0KGgo" in bodies[0]
    refused = run(repository, "run", "look", "--image", "README.md", "--model", "anthropic:m-1", **known)
    assert refused.returncode == 2
    assert "is no image" in refused.stderr


def test_without_the_extra_a_script_still_runs_and_a_provider_names_the_command(repository: Path, script: Any) -> None:
    blocked = "import sys; sys.modules.update(dict.fromkeys(['pydantic_ai', 'prompt_toolkit', 'keyring', 'acp']));"
    for words, code, said in (
        (["--model", script([DONE])], 0, "completed"),
        (["--model", "openai:m"], 2, "uv tool install '.[agent]', or pip install . './packages/remit-agent'"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", f"{blocked} {MAIN}", "run", "x", *words],
            cwd=repository,
            env={**os.environ, "OPENAI_API_KEY": "dummy"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        assert said in done.stdout + done.stderr


@pytest.mark.parametrize("outcome", ["| head -1", "> /dev/full"])
def test_an_output_that_takes_no_more_ends_the_run_quietly(repository: Path, script: Any, outcome: str) -> None:
    turns = [[{"say": f"Step {number}."}, call("list_files", path=".")] for number in range(300)]
    command = f'"$@" {outcome}; exit ${{PIPESTATUS[0]}}'
    words = [sys.executable, "-c", MAIN, "run", "x", "--max-turns", "400", "--model", script(*turns, [DONE])]
    done = subprocess.run(
        ["bash", "-c", command, "bash", *words], cwd=repository, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "remit run --resume" in done.stderr
    assert "Error" not in done.stderr
    [listed] = json.loads(run(repository, "run", "--list", "--json").stdout)["data"]
    assert listed["state"] == "open"


@pytest.mark.live
def test_an_interrupt_ends_the_run_with_130_and_says_how_to_go_on(repository: Path) -> None:
    with AnthropicWire(ScriptedModel([Say("never whole")])).serve() as wire:
        put_fault(wire, "silence")
        known = {**os.environ, "ANTHROPIC_API_KEY": "dummy", "ANTHROPIC_BASE_URL": wire.url}
        words = [sys.executable, "-c", MAIN, "run", "x", "--json", "--model", "anthropic:m-1"]
        with subprocess.Popen(
            words, cwd=repository, env=known, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as child:
            wait_until(lambda: wire.requests, has_failed=lambda: child.poll() is not None)
            child.send_signal(signal.SIGINT)
            output, errors = child.communicate(timeout=120)
    assert child.returncode == 130
    last = json.loads(output.splitlines()[-1])
    assert (last["event"], last["data"]["state"]) == ("ended", "cancelled")
    assert "remit run --resume" in errors
    assert "Traceback" not in errors


def test_a_program_talks_with_the_agent_in_json_lines(repository: Path, script: Any) -> None:
    ask = call("ask_followup_question", question="Which?", follow_up=[{"text": "red"}, {"text": "blue"}])
    model = script([{"say": "Hello."}], [ask], [{"say": "So it is."}])
    words = (sys.executable, "-c", MAIN, "run", "--json", "--input", "json", "--model", model)
    with subprocess.Popen(
        words, cwd=repository, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        assert agent.stderr is not None

        def say(**given: Any) -> None:
            assert agent.stdin is not None
            agent.stdin.write(json.dumps(given) + "\n")
            agent.stdin.flush()

        def read_event(event: str) -> dict[str, Any]:
            assert agent.stdout is not None
            return next(found for line in agent.stdout if (found := json.loads(line))["event"] == event)

        assert read_event("started")["data"]["run"]
        say(say="Hi")
        assert read_event("turn")["data"]["turn"]["parts"][0]["text"] == "Hello."
        say(say="Go on")
        question = read_event("question")["data"]
        assert question["choices"] == ["red", "blue"]
        say(unknown=1)
        say(answer="q0", words="green")
        say(answer=question["id"], words="blue")
        assert read_event("answer")["data"]["words"] == "blue"
        agent.stdin.close()
        assert "So it is." in agent.stdout.read()
        said = agent.stderr.read()
    assert agent.returncode == 0, said
    assert "a line of input was left out" in said
    assert "no question 'q0' waits for an answer" in said


def test_a_program_that_leaves_during_a_question_ends_the_run(repository: Path, script: Any) -> None:
    model = script([call("ask_followup_question", question="Which?", follow_up=[{"text": "red"}])])
    done = run(repository, "run", "--json", "--input", "json", "--model", model, typed='{"say": "Hi"}\n')
    assert done.returncode == 0, done.stderr
    assert "Which?" in done.stdout
