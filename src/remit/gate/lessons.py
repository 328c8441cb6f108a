"""Lessons and todo lists: what a session leaves for the next one, in files that people read too."""

import os
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import UNSET, Struct
from msgspec.structs import replace

from remit.core.call import SessionKey
from remit.core.contents import sha256
from remit.core.context_block import MOST_LESSONS, Lesson
from remit.core.globs import Scope
from remit.core.identifiers import uuid7
from remit.core.intent import Intent
from remit.core.record import Body
from remit.core.redaction import redact
from remit.core.text import shown
from remit.gate.governing import COPIES, governing, source_folder
from remit.gate.recorder import Recorder
from remit.gate.state import State
from remit.ledger import lock
from remit.workspace.beneath import write_below
from remit.workspace.place import FOLDER, Workspace
from remit.workspace.shared_brain import LIMIT, Entry, appended, block, blocks, one_line, plain, read_entries, replaced
from remit.workspace.whole_files import read_regular

BRAIN = "AGENT.md"
TODO = "TODO.md"
MOST_ITEMS = 200
MOST_TOLD_ITEMS = 20
MOST_OTHER_LISTS = 3

SHELL_S = 600.0
"""The longest time between a hook and the command that its agent then runs."""

TodoStatus: TypeAlias = Literal["pending", "in_progress", "done"]
BOXES: dict[TodoStatus, str] = {"pending": "[ ]", "in_progress": "[~]", "done": "[x]"}
PLAIN_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,100}")


class LessonError(ValueError):
    """A lesson or a todo list cannot be written. The message names the next step."""


class TodoItem(Struct, frozen=True, forbid_unknown_fields=True):
    """One thing to do."""

    text: str
    status: TodoStatus = "pending"


def brain_path(workspace: Workspace) -> Path:
    """The file that lessons are in: `AGENT.md` beside the intents, or what `[lessons] file` names at the root.

    A link is followed only to another such file of the workspace. Raises LessonError.
    """
    name = governing(workspace).config.lessons.file
    folder = source_folder(workspace)
    path = folder / BRAIN if name == BRAIN else workspace.root / name
    real = path.resolve()
    known = {folder.resolve() / BRAIN, *(workspace.root / n for n in ("CLAUDE.md", "AGENTS.md", BRAIN))}
    if real not in known:
        raise LessonError(f"{name} is a link to {str(real)[:200]!r}; expected a file: ask the person to put one there")
    return real


def entries(workspace: Workspace) -> tuple[Entry, ...]:
    """All that was written down, oldest first. Raises LessonError, OSError."""
    return read_entries(text_of(brain_path(workspace)))


def touching(workspace: Workspace, intent: Intent, most: int = MOST_LESSONS) -> list[Lesson]:
    """What an agent under `intent` should know, newest first; nothing where the file cannot be read.

    An entry that names files touches the intents that own one of them; one that names none, the intent it was
    made under; one without either, all.
    """
    try:
        found = entries(workspace)
    except (LessonError, OSError):
        return []
    near = [e for e in reversed(found) if touches(e, intent)]
    return [Lesson(e.kind, e.told) for e in near[:most]]


def touches(entry: Entry, intent: Intent) -> bool:
    """Whether an entry concerns an intent."""
    if entry.paths:
        scope = Scope(intent.owned_scope)
        return any(scope.matches(path) for path in entry.paths)
    return entry.intent_id in (None, intent.id)


class Lessons:
    """Writes them, for one workspace."""

    def __init__(self, workspace: Workspace, state: State, recorder: Recorder) -> None:
        self.workspace = workspace
        self.state = state
        self.recorder = recorder

    def record(self, session: SessionKey | None, agent: str, wanted: Entry) -> Entry:
        """Write an entry down and record it; what stands there now. Raises LessonError, OSError.

        An entry that stands there already is not written again: a model would read it twice.
        """
        now = self.recorder.environment.clock()
        active = self.state.active(session).intent_id if session else None
        entry = replace(
            cleaned(wanted),
            id=uuid7(int(now * 1000), os.urandom(10)),
            date=datetime.fromtimestamp(now, UTC).date().isoformat(),
            intent_id=wanted.intent_id or active,
        )
        if not entry.lesson:
            raise LessonError("the lesson is empty; say in a sentence or two what to remember")
        path = self.writable(brain_path(self.workspace))
        known: list[Entry] = []

        def add(text: str) -> str:
            known.extend(e for e in read_entries(text) if is_same(e, entry, by_session=session is not None))
            return text if known else appended(text, block(entry))

        self.rewrite(path, add)
        if known:
            return known[-1]
        body = Body(
            event="lesson",
            intent_id=entry.intent_id,
            session_id=session.session_id if session else None,
            agent_id=(session.agent_id if session else "") or UNSET,
            detail={"lesson": self.detail(entry, path), "by": agent},
        )
        self.recorder.append_or_spool([self.recorder.record(body, agent)])
        return entry

    def detail(self, entry: Entry, path: Path) -> dict[str, object]:
        """The entry as its record holds it."""
        file = path.relative_to(self.workspace.root) if path.is_relative_to(self.workspace.root) else path.name
        return {"id": entry.id, "kind": entry.kind, "text": entry.told[:500], "paths": entry.paths, "file": str(file)}

    def write_todo(self, session: SessionKey, agent: str, items: Sequence[TodoItem]) -> str:
        """Write this session's list into `TODO.md`; none takes its block out. The list as it stands there."""
        name = block_name(session)
        lines = [f"- {BOXES[i.status]} {text}" for i in items[:MOST_ITEMS] if (text := one_line(redact(i.text)))]
        intent = self.state.active(session).intent_id
        title = f"## {agent}, {intent or 'no intent'}"
        added = "\n".join((f"<!-- remit:todo {name} -->", title, *lines, "<!-- /remit -->", "")) if lines else ""
        path = self.writable(source_folder(self.workspace) / TODO)
        self.rewrite(path, lambda text: replaced(text, "todo", name, added))
        return "\n".join(lines)

    def writable(self, path: Path) -> Path:
        """The path, where its folder is there. Raises LessonError: a folder made here would change what governs."""
        if not path.parent.is_dir() or path.parent == self.workspace.state / COPIES:
            raise LessonError(f"{FOLDER}/ is missing here; ask the person to restore it")
        return path

    def rewrite(self, path: Path, change: Callable[[str], str]) -> None:
        """Change the file, whole or not at all, one writer at a time. Raises LessonError, OSError."""
        held = lock.take(self.workspace.state / "lessons.lock")
        try:
            old = text_of(path)
            text = change(old)
            if text == old:
                return
            fresh = text.encode("utf-8", "surrogateescape")
            if len(fresh) > LIMIT:
                raise LessonError(f"{path.name} would be larger than {LIMIT >> 20} MiB; ask the person to tidy it")
            mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
            places = (self.workspace.root, source_folder(self.workspace).parent)
            root = next((place for place in places if path.is_relative_to(place)), self.workspace.root)
            write_below(root, path, fresh, mode)
        finally:
            lock.release(held)


def is_same(known: Entry, entry: Entry, *, by_session: bool) -> bool:
    """Whether a new entry says what a known one does.

    The hook writes an agent's entry before the agent's shell runs `remit lesson`, which may not see that it runs for
    an agent: so one that no session wrote is the same as one just made, under whichever intent.
    """
    ages = {"id": "", "date": "", "intent_id": None}
    if replace(known, **ages) != replace(entry, **ages):
        return False
    just_made = milliseconds_of(entry.id) - milliseconds_of(known.id) < SHELL_S * 1000
    return known.intent_id == entry.intent_id or (not by_session and entry.intent_id is None and just_made)


def milliseconds_of(entry_id: str) -> int:
    """When an entry with that id was made; 0 where an older tool, or a person, gave it another."""
    digits = entry_id.replace("-", "")[:12]
    return int(digits, 16) if re.fullmatch(r"[0-9a-f]{12}", digits) else 0


def todo_lists(workspace: Workspace) -> list[tuple[str, str]]:
    """(session, list) of each block of `TODO.md`. Raises OSError."""
    text = text_of(source_folder(workspace) / TODO)
    return [(name, "\n".join(lines)) for kind, name, lines in blocks(text) if kind == "todo"]


def todo_notice(workspace: Workspace, session: SessionKey) -> str:
    """What a session that begins is told of the lists in `TODO.md`: its own open items, and that others left some.

    Raises OSError.
    """
    own_name = block_name(session)
    lists = {name: [line for line in body.splitlines() if is_open(line)] for name, body in todo_lists(workspace)}
    own = lists.pop(own_name, [])
    others = [(name, items) for name, items in lists.items() if items][-MOST_OTHER_LISTS:]
    parts: list[str] = []
    if own:
        items = "\n".join(shown(line, 300) for line in own[:MOST_TOLD_ITEMS])
        more = f"\nand {len(own) - MOST_TOLD_ITEMS} more" if len(own) > MOST_TOLD_ITEMS else ""
        parts.append(f"Remit: your list in {FOLDER}/{TODO} has {len(own)} open items:\n{items}{more}")
    if others:
        left = ", ".join(f"{shown(name, 60)} ({len(items)})" for name, items in others)
        parts.append(
            f"Remit: {FOLDER}/{TODO} holds open items of other sessions: {left}. Read it if you take their work up."
        )
    return "\n".join(parts)


def is_open(line: str) -> bool:
    """Whether a line of a list is an item that is not done."""
    return line.startswith(tuple(f"- {BOXES[status]}" for status in ("pending", "in_progress")))


def text_of(path: Path) -> str:
    """The file's text, any bytes of it kept; empty where there is none. Raises OSError."""
    try:
        return read_regular(path, LIMIT).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""


def cleaned(entry: Entry) -> Entry:
    """The entry without secrets, hidden characters and line ends."""
    return replace(
        entry,
        lesson=plain(redact(entry.lesson)),
        problem=plain(redact(entry.problem)),
        resolution=plain(redact(entry.resolution)),
        pattern=plain(redact(entry.pattern)),
        paths=tuple(filter(None, (plain(path)[:300] for path in entry.paths[:50]))),
    )


def block_name(session: SessionKey) -> str:
    """What a session's block is called: its id, as far as a mark can hold it."""
    name = f"{session.session_id}.{session.agent_id}" if session.agent_id else session.session_id
    return name if PLAIN_NAME.fullmatch(name) else sha256(name.encode("utf-8", "replace"))[:32]
