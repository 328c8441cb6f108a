"""The sessions of a re-enacted history: each makes changes of real commits by the calls of its own tools."""

import random
import shlex
import subprocess
from collections.abc import Iterator, Sequence

from .lines import PERSON, Line, written
from .real_history import Changed, Difference, differences
from .real_words import Edit, replacement, shell, swaps, write
from .tools import Session
from .world import Call, World

SHARE_WRITTEN_WHOLE = 0.15

SHARE_DIVIDED = 0.2
"""Files with several hunks of which a person makes some, after the agent's calls and before the commit."""

AGENTS = (("claude-code", "INT-001"), ("claude-code", "INT-002"), ("claude-code", "INT-003"), ("gemini", "INT-001"))

Texts = Sequence[bytes]


class Hands:
    """Four sessions in one world. `calls` are the ids of their calls, each with its agent and tool."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self.world, self.rng = world, rng
        self.sessions = [world.session(agent, intent) for agent, intent in AGENTS]
        self.calls: dict[str, str] = {}

    def change(self, session: Session, changed: Changed, old: Texts | None, new: Texts | None) -> Sequence[Difference]:
        """Make one file's change by calls: its lines before and after, None where it is not there. The hunks that are
        left to a person come back. Raises Refused.
        """
        path = changed.new or changed.old or ""
        if new is None:
            self.command(session, f"git rm -q -- {shlex.quote(path)}")
            return ()
        if changed.old and changed.old != path:
            (self.world.root / path).parent.mkdir(parents=True, exist_ok=True)
            self.command(session, f"git mv -- {shlex.quote(changed.old)} {shlex.quote(path)}")
        if old is None:
            self.write(session, Edit(self.world.root, path, [], written(new, PERSON), exists=False))
        elif old != new:
            self.world.read(session, path)
            self.note(session, "read")
            whole = self.rng.random() < SHARE_WRITTEN_WHOLE
            hunks = differences(old, new, 0)
            left = [] if whole or self.rng.random() > SHARE_DIVIDED else self.rng.sample(hunks, len(hunks) // 2)
            for edit in edits(self.world, path, old, new, [hunk for hunk in hunks if hunk not in left]):
                found = None if whole or not edit.old or not edit.new else swaps(edit, self.rng, one=True)
                if whole or not found:
                    self.write(session, Edit(edit.root, path, written(old, PERSON), written(new, PERSON), exists=True))
                    return ()
                self.save(session, edit, replacement(session, edit, found))
            return left
        return ()

    def write(self, session: Session, edit: Edit) -> None:
        self.save(session, edit, write(session, edit))

    def save(self, session: Session, edit: Edit, call: Call) -> None:
        """A call of a file tool, and its writing."""
        self.world.before(session, call)
        target = self.world.root / edit.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(edit.content.encode())
        self.world.after(session, call)
        self.note(session, call[0])

    def command(self, session: Session, text: str) -> None:
        """A shell command, really run."""
        call = shell(session, text)
        self.world.before(session, call)
        subprocess.run(["sh", "-c", text], cwd=self.world.root, env=self.world.environ, check=True, capture_output=True)
        self.world.after(session, call)
        self.note(session, call[0])

    def note(self, session: Session, tool: str) -> None:
        self.calls[f"call_{self.world.calls}"] = f"{session.agent} {tool}"


def edits(world: World, path: str, old: Texts, new: Texts, hunks: Sequence[Difference]) -> Iterator[Edit]:
    """These hunks of a file's change, one after the other, the last place first."""
    current = written(old, PERSON)
    for hunk in reversed(hunks):
        put = written(new[hunk.to : hunk.to + hunk.size], PERSON)
        after: list[Line] = [*current[: hunk.at], *put, *current[hunk.at + hunk.count :]]
        yield Edit(world.root, path, current, after, exists=True)
        current = after
