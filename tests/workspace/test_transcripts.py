"""Finding agents' transcripts, and the model in them."""

import json
from pathlib import Path

import pytest

from remit.workspace.agents.transcripts import find_last_model, find_transcript

CAPTURED = Path(__file__).parents[1] / "compat" / "transcripts"
SESSION = "0af7c1d2-4c5d-48f0-8d71-31c8028691f6"

PLACES = {
    "claude-code": f".claude/projects/-repo/{SESSION}.jsonl",
    "codex": f".codex/sessions/2026/11/22/rollout-2026-11-22T03-03-28-{SESSION}.jsonl",
    "gemini": f".gemini/tmp/repo/chats/session-2026-11-22T03-03-{SESSION[:8]}.jsonl",
    "qwen": f".qwen/projects/-repo/chats/{SESSION}.jsonl",
}


@pytest.mark.parametrize(
    ("agent", "model"), [("claude-code", "claude-sonnet-5"), ("gemini", "gemini-2.5-pro"), ("qwen", "scripted-model")]
)
def test_the_model_of_the_newest_answer(tmp_path: Path, agent: str, model: str) -> None:
    compact = [json.dumps(json.loads(line), separators=(",", ":")) for line in lines(agent)]
    (tmp_path / "t").write_text(
        "\n".join([*compact, '{"type":"user","message":"\\"model\\":\\"fake\\" \\"assistant\\""}'])
    )
    assert find_last_model(tmp_path / "t") == model


def lines(agent: str) -> list[str]:
    return (CAPTURED / f"{agent}.jsonl").read_text().splitlines()


@pytest.mark.parametrize("agent", PLACES)
def test_a_session_is_found_where_its_agent_keeps_it(tmp_path: Path, agent: str) -> None:
    place = tmp_path / PLACES[agent]
    place.parent.mkdir(parents=True)
    place.touch()
    assert find_transcript(tmp_path, agent, SESSION) == place
    assert find_transcript(tmp_path, agent, SESSION.replace("0", "1")) is None


@pytest.mark.parametrize("session", ["*", "../../x", "a/b", "", "short", "x" * 500])
def test_a_session_of_no_such_form_is_not_sought(tmp_path: Path, session: str) -> None:
    (tmp_path / ".claude/projects/p").mkdir(parents=True)
    (tmp_path / ".claude/projects/p/anything.jsonl").touch()
    assert find_transcript(tmp_path, "claude-code", session) is None
