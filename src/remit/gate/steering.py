"""The files by which a person steers agents, in HOME: Remit's hooks that an uncontained command takes out come back.

No snapshot holds them. So what they say is kept before such a command, and where it took Remit's hooks out of one, or
switched hooks off, that file is put back. All else in them is the agent's and the person's own affair.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import UNSET

from remit.core.call import ToolCall
from remit.core.decision import Decision, Verdict
from remit.core.record import Body
from remit.core.text import shown
from remit.gate import effects
from remit.gate.contained_calls import CLIENT
from remit.gate.site import Site
from remit.policy.classify import classify
from remit.workspace.snapshots_private import Copies
from remit.workspace.whole_files import write_atomically

FACT = "steering"
FOLDER = "steering"
"""In Remit's own folder: copies of these files, which may hold keys."""

LARGEST = 1 << 20
"""Bytes of a file that is looked at."""

SWITCHES = (b'"disableAllHooks"', b'"hooksConfig"')
"""What switches hooks off (Claude Code and Qwen Code; Gemini CLI)."""

MANIFEST = ".local/state/remit/wired.json"
"""Below HOME; `wiring.manifest` writes it. A file that it does not name is no longer Remit's concern."""


RUNS: frozenset[Verdict] = frozenset({"allow", "contain"})


class Steering:
    """Keeps those files, and puts them back. All of it raises what CannotRecord names."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.home = site.environment.home
        self.copies = Copies(site.workspace.state / FOLDER)

    def keep(self) -> None:
        """A command is about to run: keep what the wired files say now."""
        found = {str(path): (self.copies.put(content), str(path.resolve())) for path, content in self.wired()}
        if found != self.kept():
            self.site.state.put_fact(FACT, json.dumps(found))

    def kept(self) -> dict[str, tuple[str, str]]:
        """By path, the name of the copy, and the file itself, where links lead to it."""
        return {path: (key, real) for path, (key, real) in json.loads(self.site.state.fact(FACT) or "{}").items()}

    def wired(self) -> Iterator[tuple[Path, bytes]]:
        """The files that hold Remit's hooks."""
        for setting in self.site.environment.settings:
            content = read(self.home / setting)
            if CLIENT.encode() in content:
                yield self.home / setting, content

    def put_back(self, call: ToolCall) -> str:
        """A command came back: put back what it unhooked, record that, and say so."""
        if not call.whole_workspace or classify(call) != "destructive" or self.site.mode_now() != "enforce":
            return ""
        before = self.before()
        unhooked = {path: real for path, (content, real) in before.items() if loosened(content, read(path))}
        if not unhooked:
            return ""
        versions = [str(self.copies.path(self.copies.put(read(path)))) for path in unhooked]
        for path, real in unhooked.items():
            write_through(path, real, before[path][0])
        self.record(call, list(unhooked), versions)
        names = ", ".join(map(self.named, unhooked))
        return (
            f"Remit [PROTECTED_PATH]: this {call.tool} call took Remit's hooks out of {names}, or switched them off; "
            "it was put back as it was, and recorded. No agent changes what steers it. "
            f"Your version is kept as {', '.join(versions)}."
        )

    def before(self) -> dict[Path, tuple[bytes, Path]]:
        """What these files held before the command, and where they lie; not of those that were unwired since."""
        wired = read(self.home / MANIFEST)
        kept = {path: found for path, found in self.kept().items() if msgspec.json.encode(path)[1:-1] in wired}
        return {Path(path): (self.copies.get(key), Path(real)) for path, (key, real) in kept.items()}

    def record(self, call: ToolCall, paths: list[Path], versions: list[str]) -> None:
        """That they were put back, and where the agent's version is."""
        detail: dict[str, object] = {
            "paths": list(map(self.named, paths)),
            "why": "it steers an agent, and the call took Remit's hooks out of it",
            "copies": versions,
        }
        body = Body(
            event="restore",
            intent_id=self.site.state.active(call.session).intent_id,
            session_id=call.session.session_id,
            agent_id=call.session.agent_id or UNSET,
            call=effects.call_part(call),
            detail=detail,
        )
        self.site.recorder.append_or_spool([self.site.recorder.record(body)])

    def named(self, path: Path) -> str:
        """A file as a person says it."""
        inside = path.is_relative_to(self.home)
        return shown(f"~/{path.relative_to(self.home)}" if inside else str(path), 200)


def goes_on(decision: Decision) -> bool:
    """Whether a call that was judged so runs, in enforce.

    One that runs contained cannot change these files. But a person may have, since they were kept last.
    """
    return decision.mode == "enforce" and decision.call_class == "destructive" and decision.effect in RUNS


def write_through(path: Path, real: Path, content: bytes) -> None:
    """Write the file that `path` led to, and have it lead there again: a link may have been put in its place."""
    if path.resolve() != real:
        path.unlink(missing_ok=True)
    real.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(real, content, 0o600)
    if path.resolve() != real:
        path.symlink_to(real)


def read(path: Path) -> bytes:
    """What the file holds; nothing where it is gone, no file, or too large to be one of these."""
    with suppress(OSError):
        if path.is_file() and path.stat().st_size <= LARGEST:
            return path.read_bytes()
    return b""


def loosened(before: bytes, now: bytes) -> bool:
    """Whether fewer of Remit's hooks stand there, or a switch that was not there."""
    hooks = CLIENT.encode()
    return now.count(hooks) < before.count(hooks) or any(now.count(word) > before.count(word) for word in SWITCHES)
