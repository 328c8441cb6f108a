"""Lessons and todo lists: notes from one session for the next, in files that people read too."""

import os
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from msgspec import UNSET, Struct
from msgspec.structs import replace

from remit.core.call import SessionKey
from remit.core.config import LessonsFile
from remit.core.diff.contents import sha256
from remit.core.intent import Intent
from remit.core.intents.context_block import MAX_LESSONS, LessonEntry
from remit.core.record import Body, make_uuid7
from remit.core.redaction import redact
from remit.core.scope.path_patterns import Scope
from remit.core.untrusted_input import sanitise_line
from remit.gate.context import WorkspaceContext
from remit.gate.governing.rules import COPIES_FOLDER, load_rules, source_folder
from remit.ledger.log_files import hold_lock
from remit.workspace.agents.marked_blocks import (
    MAX_BRAIN_BYTES,
    BrainEntry,
    append_block,
    escape_one_line,
    format_block,
    read_entries,
    replace_block,
    split_blocks,
    to_plain_line,
)
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER, Workspace
from remit.workspace.safe_files import read_regular_file, write_below

LESSONS_FILE = "AGENT.md"
TODO_FILE = "TODO.md"
MAX_TODO_ITEMS = 200
MAX_SHOWN_ITEMS = 20
MAX_OTHER_LISTS = 3

HOOK_TO_COMMAND_S = 600.0  # longest time between a hook and the start of the agent's command

TodoStatus: TypeAlias = Literal["pending", "in_progress", "done"]
CHECKBOXES: dict[TodoStatus, str] = {"pending": "[ ]", "in_progress": "[~]", "done": "[x]"}
PLAIN_SESSION_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,100}")


class LessonError(ValueError):
    """Lesson or todo list that cannot be written. The message names the next step."""


class TodoItem(Struct, frozen=True, forbid_unknown_fields=True):
    """Item of a todo list."""

    text: str
    status: TodoStatus = "pending"


def find_lessons_path(workspace: Workspace) -> Path:
    """Return the lessons file: `AGENT.md` beside the intents, or the root file named by `[lessons] file`. A link is
    followed only to another known lessons file of the workspace. Raises LessonError.
    """
    name = load_rules(workspace).config.lessons.file
    folder = source_folder(workspace)
    path = folder / LESSONS_FILE if name == LESSONS_FILE else workspace.root / name
    real = path.resolve()
    known = {folder.resolve() / LESSONS_FILE, *(workspace.root / file for file in get_args(LessonsFile))}
    if real not in known:
        raise LessonError(f"{name} is a link to {str(real)[:200]!r}; expected a file: ask the person to put one there")
    return real


def read_lessons(workspace: Workspace) -> tuple[BrainEntry, ...]:
    """Return every entry, oldest first. Raises LessonError, OSError."""
    return read_entries(read_text(find_lessons_path(workspace)))


def find_relevant_lessons(workspace: Workspace, intent: Intent, limit: int = MAX_LESSONS) -> list[LessonEntry]:
    """Return the lessons for an agent under `intent`, newest first; none if the file cannot be read. An entry with
    paths concerns the intents that own a path; an entry without paths concerns the intent it was recorded under; an
    entry without both concerns every intent.
    """
    try:
        found = read_lessons(workspace)
    except (LessonError, OSError):
        return []
    scope = Scope(intent.owned_scope)
    relevant = [
        entry
        for entry in reversed(found)
        if (any(map(scope.matches, entry.paths)) if entry.paths else entry.intent_id in (None, intent.id))
    ]
    return [LessonEntry(entry.kind, entry.summary) for entry in relevant[:limit]]


class LessonsWriter:
    """Writer of lessons and todo lists in one workspace."""

    def __init__(self, context: WorkspaceContext) -> None:
        self.context = context
        self.workspace = context.workspace

    def record_lesson(self, session: SessionKey | None, agent: str, wanted: BrainEntry) -> BrainEntry:
        """Write an entry into the lessons file, record it, and return the stored entry. Raises LessonError, OSError. An
        entry already in the file is not written twice: a model would read both copies. Secrets, hidden characters and
        line ends are taken out.
        """
        now = self.context.environment.clock.now()
        active = self.context.state.active_session(session).intent_id if session else None
        texts = {
            name: to_plain_line(redact(getattr(wanted, name)))
            for name in ("lesson", "problem", "resolution", "pattern")
        }
        entry = replace(
            wanted,
            **texts,
            paths=tuple(filter(None, (to_plain_line(path)[:300] for path in wanted.paths[:50]))),
            id=make_uuid7(int(now * 1000), os.urandom(10)),
            date=datetime.fromtimestamp(now, UTC).date().isoformat(),
            intent_id=wanted.intent_id or active,
        )
        if not entry.lesson:
            raise LessonError("the lesson is empty; say in a sentence or two what to remember")
        path = find_lessons_path(self.workspace)
        known: list[BrainEntry] = []

        def append_if_new(text: str) -> str:
            known.extend(e for e in read_entries(text) if is_repeated_lesson(e, entry, by_session=session is not None))
            return text if known else append_block(text, format_block(entry))

        self.rewrite_file(path, append_if_new)
        if known:
            return known[-1]
        file = path.relative_to(self.workspace.root) if path.is_relative_to(self.workspace.root) else path.name
        lesson = {
            "id": entry.id,
            "kind": entry.kind,
            "text": entry.summary[:500],
            "paths": entry.paths,
            "file": str(file),
        }
        body = Body(
            event="lesson",
            intent_id=entry.intent_id,
            session_id=session.session_id if session else None,
            agent_id=(session.agent_id if session else "") or UNSET,
            detail={"lesson": lesson, "by": agent},
        )
        self.context.recorder.append_or_spool([self.context.recorder.make_record(body, agent)])
        return entry

    def write_todo(self, session: SessionKey, agent: str, items: Sequence[TodoItem]) -> str:
        """Replace the session's list in `TODO.md` and return its lines; an empty list removes the block."""
        lines = [
            f"- {CHECKBOXES[item.status]} {text}"
            for item in items[:MAX_TODO_ITEMS]
            if (text := escape_one_line(redact(item.text)))
        ]
        intent = self.context.state.active_session(session).intent_id
        name, title = format_block_name(session), f"## {agent}, {intent or 'no intent'}"
        added = "\n".join((f"<!-- remit:todo {name} -->", title, *lines, "<!-- /remit -->", "")) if lines else ""
        path = source_folder(self.workspace) / TODO_FILE
        self.rewrite_file(path, lambda text: replace_block(text, "todo", name, added))
        return "\n".join(lines)

    def rewrite_file(self, path: Path, change: Callable[[str], str]) -> None:
        """Change the file atomically, one writer at a time. Raises LessonError, OSError."""
        # A new folder would change the rules in force.
        if not path.parent.is_dir() or path.parent == self.workspace.state / COPIES_FOLDER:
            raise LessonError(f"{ORCHESTRATION_FOLDER}/ is missing here; ask the person to restore it")
        with hold_lock(self.workspace.state / "lessons.lock"):
            old = read_text(path)
            text = change(old)
            if text == old:
                return
            fresh = text.encode("utf-8", "surrogateescape")
            if len(fresh) > MAX_BRAIN_BYTES:
                bound = f"{MAX_BRAIN_BYTES >> 20} MiB"
                raise LessonError(f"{path.name} would be larger than {bound}; ask the person to tidy it")
            mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
            places = (self.workspace.root, source_folder(self.workspace).parent)
            root = next((place for place in places if path.is_relative_to(place)), self.workspace.root)
            write_below(root, path, fresh, mode)


def is_repeated_lesson(known: BrainEntry, entry: BrainEntry, *, by_session: bool) -> bool:
    ages = {"id": "", "date": "", "intent_id": None}
    if replace(known, **ages) != replace(entry, **ages):
        return False
    just_made = creation_ms(entry.id) - creation_ms(known.id) < HOOK_TO_COMMAND_S * 1000
    return known.intent_id == entry.intent_id or (not by_session and entry.intent_id is None and just_made)


def creation_ms(entry_id: str) -> int:
    """Return the creation time in an entry's id; 0 if an older tool or a person chose the id."""
    digits = entry_id.replace("-", "")[:12]
    return int(digits, 16) if re.fullmatch(r"[0-9a-f]{12}", digits) else 0


def read_todo_lists(workspace: Workspace) -> list[tuple[str, str]]:
    text = read_text(source_folder(workspace) / TODO_FILE)
    return [(name, "\n".join(lines)) for kind, name, lines in split_blocks(text) if kind == "todo"]


def describe_open_items(workspace: Workspace, session: SessionKey) -> str:
    """Describe the open items in `TODO.md` for a new session: its own items, and counts for others. Raises OSError."""
    marks = tuple(f"- {CHECKBOXES[status]}" for status in ("pending", "in_progress"))
    lists = {
        name: [line for line in body.splitlines() if line.startswith(marks)]
        for name, body in read_todo_lists(workspace)
    }
    own = lists.pop(format_block_name(session), [])
    others = [(name, items) for name, items in lists.items() if items][-MAX_OTHER_LISTS:]
    place = f"{ORCHESTRATION_FOLDER}/{TODO_FILE}"
    parts: list[str] = []
    if own:
        items = "\n".join(sanitise_line(line, 300) for line in own[:MAX_SHOWN_ITEMS])
        more = f"\nand {len(own) - MAX_SHOWN_ITEMS} more" if len(own) > MAX_SHOWN_ITEMS else ""
        parts.append(f"Remit: your list in {place} has {len(own)} open items:\n{items}{more}")
    if others:
        left = ", ".join(f"{sanitise_line(name, 60)} ({len(items)})" for name, items in others)
        parts.append(
            f"Remit: {place} holds open items of other sessions: {left}. Read it before continuing their work."
        )
    return "\n".join(parts)


def list_open_items(workspace: Workspace, intent_id: str) -> tuple[str, ...]:
    """Return the open items that sessions under an intent left in `TODO.md`. Raises OSError."""
    marks = tuple(f"- {CHECKBOXES[status]}" for status in ("pending", "in_progress"))
    bodies = [body.splitlines() for _, body in read_todo_lists(workspace)]
    theirs = (lines for lines in bodies if lines and lines[0].endswith(f", {intent_id}"))
    return tuple(line for lines in theirs for line in lines if line.startswith(marks))


def read_text(path: Path) -> str:
    """Return the file's text with undecodable bytes preserved; "" if the file is missing. Raises OSError."""
    try:
        return read_regular_file(path, MAX_BRAIN_BYTES).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""


def format_block_name(session: SessionKey) -> str:
    """Return the name of a session's block in `TODO.md`: the session id, or its hash if a mark cannot hold the id."""
    name = f"{session.session_id}.{session.agent_id}" if session.agent_id else session.session_id
    return name if PLAIN_SESSION_NAME.fullmatch(name) else sha256(name.encode("utf-8", "replace"))[:32]
