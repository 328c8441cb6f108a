"""Conversations: kept entries, and entries that are never kept."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from core.secret_corpus import CORPUS, SECRETS
from remit.core.redaction import compile_team_pattern
from remit.ledger.index.search import NoSearchWords
from remit.provenance.why.conversation_store import (
    DATABASE_FILE,
    MAX_KEPT_CHARS,
    SECRET_PLACEHOLDER,
    ConversationEntry,
    Conversations,
    TranscriptSource,
    search_conversations,
)
from remit.workspace.agents.transcripts import MAX_LINE_BYTES, MAX_READ_BYTES

CAPTURED_FOLDER = Path(__file__).parents[1] / "compat" / "transcripts"
NOW = 1_795_320_000.0
"""An hour after the captured conversations."""

DAY = 86_400


def line(text: str, role: str = "user", **more: Any) -> bytes:
    document = {"type": role, "timestamp": "2026-11-22T03:00:00.000Z", "message": {"role": role, "content": text}}
    return json.dumps({**document, **more}).encode() + b"\n"


def call(call_id: str, command: str) -> bytes:
    part = {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": command}}
    return json.dumps({"type": "assistant", "message": {"content": [part]}}).encode() + b"\n"


def result(call_id: str, text: str) -> bytes:
    part = {"type": "tool_result", "tool_use_id": call_id, "content": text}
    return json.dumps({"type": "user", "message": {"content": [part]}}).encode() + b"\n"


class Store:
    """A folder of kept conversations, and one transcript."""

    def __init__(self, folder: Path, agent: str = "claude-code", retain_days: float = 90, pattern: str = "") -> None:
        self.folder = folder / "state"
        self.folder.mkdir()
        self.transcript = folder / "session.jsonl"
        self.source = TranscriptSource(str(self.transcript), agent, "s")
        self.retain_days = retain_days
        self.patterns = (compile_team_pattern(pattern),) if pattern else ()

    def append(self, *lines: bytes) -> None:
        with self.transcript.open("ab") as file:
            file.writelines(lines)

    def take_in(self, now: float = NOW) -> int:
        with Conversations.open(self.folder, self.retain_days, self.patterns) as kept:
            return kept.read_transcripts([self.source], now)

    def all(self) -> tuple[ConversationEntry, ...]:
        with Conversations.open(self.folder, self.retain_days, self.patterns) as kept:
            return kept.entries_of_session("s")

    def texts(self) -> list[str]:
        return [one.text for one in self.all()]

    def on_disk(self) -> bytes:
        return b"".join(path.read_bytes() for path in sorted(self.folder.glob("*")))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


@pytest.mark.parametrize("agent", ["claude-code", "codex", "gemini", "qwen"])
def test_a_real_transcript_is_kept_once_however_often_it_is_read(tmp_path: Path, agent: str) -> None:
    store = Store(tmp_path, agent)
    store.append((CAPTURED_FOLDER / f"{agent}.jsonl").read_bytes())
    assert store.take_in() >= 10
    before = store.all()
    assert (len(before), store.take_in(), store.all()) == (10, 0, before)
    store.transcript.replace(store.transcript.with_suffix(".new"))
    store.transcript.write_bytes(store.transcript.with_suffix(".new").read_bytes())
    store.take_in()
    assert store.all() == before


def test_only_what_is_new_is_read(store: Store) -> None:
    store.append(line("one"))
    assert store.take_in() == 1
    store.append(line("two"), line("three")[:-10])
    assert (store.take_in(), store.texts()) == (1, ["one", "two"])
    store.append(line("three")[-10:])
    assert (store.take_in(), store.texts()) == (1, ["one", "two", "three"])


def test_a_file_that_became_shorter_is_read_from_its_beginning(store: Store) -> None:
    store.append(line("one", uuid="1"), line("two", uuid="2"))
    store.take_in()
    store.transcript.write_bytes(line("0", uuid="3"))
    store.take_in()
    assert store.texts() == ["one", "two", "0"]


def test_a_line_of_any_length_is_passed_over_and_the_next_is_read(store: Store) -> None:
    store.append(b'{"type":"user","message":{"content":"' + b"x" * MAX_LINE_BYTES + b'"}}\n', line("after"))
    store.take_in()
    assert store.texts() == ["after"]


def test_a_message_that_comes_again_takes_the_place_of_the_first(tmp_path: Path) -> None:
    store = Store(tmp_path, "gemini")
    first, again = ({"id": "m", "type": "gemini", "content": text} for text in ("draft", "final"))
    store.append(json.dumps(first).encode() + b"\n", b'{"id":"n","type":"user","content":"next"}\n')
    store.take_in()
    store.append(json.dumps(again).encode() + b"\n")
    store.take_in()
    assert store.texts() == ["final", "next"]


@pytest.mark.parametrize(("text", "secret"), CORPUS.values(), ids=CORPUS.keys())
def test_no_secret_reaches_the_disk(store: Store, text: str, secret: str) -> None:
    padding = "word " * ((MAX_KEPT_CHARS["user"] - len(text) // 2) // 5)
    store.append(line(text), line(f"{padding}\n{text}", uuid="2"), call("t", f"echo {text}"), result("t", text))
    assert store.take_in() == 4
    held = store.on_disk()
    assert b"word word" in held
    for part in secret.split("\n"):
        assert len(part) < 12 or part.startswith("-----") or part.encode() not in held, part


def test_a_teams_own_patterns_are_masked(tmp_path: Path) -> None:
    store = Store(tmp_path, pattern="ACME-[0-9]{6}")
    store.append(line("use ACME-123456"))
    store.take_in()
    assert store.texts() == ["use [redacted]"]


def test_the_result_of_reading_a_secret_file_is_not_kept(store: Store) -> None:
    store.append(call("t1", "cat .env"), call("t2", "cat app.py"))
    store.take_in()
    store.append(result("t1", "COLOUR=blue"), result("t2", "colour = 1"))
    store.take_in()
    assert store.texts() == ["cat .env", "cat app.py", SECRET_PLACEHOLDER, "colour = 1"]


def test_expired_entries_are_deleted_and_not_read_again(store: Store) -> None:
    secret = next(iter(SECRETS))
    store.append(line(f"say {secret} never"), line("later", timestamp="2026-12-20T00:00:00Z"))
    store.take_in()
    store.take_in(NOW + 91 * DAY)
    assert store.texts() == []
    store.append(line("newest", timestamp="2027-02-20T00:00:00Z"))
    store.take_in(NOW + 91 * DAY)
    assert store.texts() == ["newest"]
    assert b"never" not in (store.folder / DATABASE_FILE).read_bytes()


def test_a_part_of_a_conversation_may_be_older_than_the_rest(store: Store) -> None:
    store.append(line("old"), line("young", timestamp="2027-02-01T00:00:00Z"))
    store.take_in(NOW + 89 * DAY)
    store.append(line("youngest", timestamp="2027-02-20T00:00:00Z"))
    store.take_in(NOW + 91 * DAY)
    assert store.texts() == ["young", "youngest"]


def test_without_retention_no_file_is_written(store: Store) -> None:
    store.append(line("one"))
    store.take_in()
    store.retain_days = 0
    with Conversations.open(store.folder, 0) as kept:
        assert kept.read_transcripts([store.source], NOW) == 1
        assert [one.text for one in kept.entries_of_session("s")] == ["one"]
    assert list(store.folder.iterdir()) == []


def test_the_database_is_readable_by_its_owner_only(store: Store) -> None:
    store.append(line("one"))
    store.take_in()
    assert (store.folder / DATABASE_FILE).stat().st_mode & 0o077 == 0


def test_a_damaged_file_is_moved_aside(store: Store) -> None:
    (store.folder / DATABASE_FILE).write_bytes(b"no database at all" * 100)
    store.append(line("one"))
    assert store.take_in() == 1
    assert (store.folder / f"{DATABASE_FILE}.damaged").exists()


def test_on_a_read_only_disk_the_conversation_is_still_read(store: Store) -> None:
    store.append(line("one"))
    (store.folder / DATABASE_FILE).mkdir()
    with Conversations.open(store.folder, 90) as kept:
        assert "cannot be used" in kept.problem
        kept.catch_up([store.source], NOW)
        assert [one.text for one in kept.entries_of_session("s")] == ["one"]


@pytest.mark.parametrize("place", ["/dev/zero", "/nowhere/at.jsonl", "a\0b", ".", ""])
def test_a_path_that_is_no_file_is_no_transcript(store: Store, place: str) -> None:
    with Conversations.open(store.folder, 90) as kept:
        assert kept.read_transcripts([TranscriptSource(place, "claude-code", "s")], NOW) == 0


def test_a_pipe_is_not_waited_for(store: Store) -> None:
    os.mkfifo(store.transcript)
    assert store.take_in() == 0


def test_a_file_full_of_holes_is_read_in_parts(store: Store) -> None:
    with store.transcript.open("wb") as file:
        file.truncate(MAX_READ_BYTES + 1)
        file.seek(MAX_READ_BYTES + 1)
        file.write(b"\n" + line("at the end"))
    with Conversations.open(store.folder, 90) as kept:
        assert kept.read_transcripts([store.source], NOW) == 0
        assert "too long to be read at once" in kept.problem
    assert store.take_in() == 1
    assert store.texts() == ["at the end"]


def find_entries(store: Store, *words: str, **more: Any) -> list[tuple[str, str]]:
    with Conversations.open(store.folder, store.retain_days, store.patterns) as kept:
        return [(one.role, one.around) for one in search_conversations(kept.database, words, 10, **more)]


def test_entries_are_found_by_their_words_including_later_ones(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.append(line("please rename the greeter"), line("I renamed greeters", "assistant"))
    store.take_in()
    assert {role for role, _ in find_entries(store, "rename", "greeter")} == {"user", "assistant"}
    store.append(line("and now the loader"), result("toolu_1", "loader output"))
    store.take_in()
    assert find_entries(store, "loader") == [("user", "and now the loader")]
    assert find_entries(store, "loader", session="other") == []
    assert find_entries(store, "loader", since="2027") == []
    with pytest.raises(NoSearchWords):
        find_entries(store, "***")


def test_no_search_finds_deleted_entries(tmp_path: Path) -> None:
    store = Store(tmp_path, retain_days=30)
    store.append(line("an old confession"))
    store.take_in()
    assert find_entries(store, "confession")
    store.take_in(NOW + 90 * DAY)
    assert find_entries(store, "confession") == []
    assert b"confession" not in (store.folder / DATABASE_FILE).read_bytes()
