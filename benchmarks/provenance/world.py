"""A throw-away repository in which agents, people and programs write, and who wrote each line is known.

Agents come through their hooks, in their own words. People and programs just write. git is the real one.
"""

import base64
import hashlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from difflib import SequenceMatcher
from pathlib import Path
from socket import create_server
from typing import Any, Literal

from remit.core.diff.contents import is_distinctive_line

from .lines import BEFORE, PERSON, Author, Line, common, doubt, doubt_along, texts, written
from .tools import Session, Tool

INTENTS = ("INT-001", "INT-002", "INT-003")

CONFIG = (
    "[user]\n\tname = A Person\n\temail = person@example.org\n[init]\n\tdefaultBranch = main\n[core]\n\teditor = true\n"
)

Call = tuple[str, dict[str, Any], Any]
"""The tool's name, its arguments and its answer."""

How = Literal["write", "edit", "multi", "patch", "shell", "script"]
"""The tool of a call. A `shell` command holds the lines that it writes; a `script` tells nothing of what it writes."""

ANSWER = {"stdout": "", "stderr": "", "interrupted": False}

MAX_WAIT_S = 60.0
"""Time after which something that was waited for is taken for lost."""

PROGRAM = """\
import base64, pathlib
file = pathlib.Path({path!r})
file.parent.mkdir(parents=True, exist_ok=True)
file.write_bytes(base64.b64decode({content!r}))
"""
"""A program that writes a file: neither its command's text nor its own holds the lines."""

Texts = Sequence[bytes]

EVENTS = {
    "gemini": {
        "PreToolUse": "BeforeTool",
        "PostToolUse": "AfterTool",
        "UserPromptSubmit": "BeforeAgent",
        "Stop": "AfterAgent",
    }
}
"""What an agent calls its events, where it does not say it in Claude Code's words."""


class BrokenScenario(AssertionError):
    """The files are not what the scenario says they are: its truth is none."""


class World:
    """One repository. `files` are the lines of the work tree, by path."""

    def __init__(self, tool: Tool, folder: Path, seed: str) -> None:
        self.tool = tool
        self.rng = random.Random(seed)
        self.root, self.home = folder / "repo", folder / "home"
        self.root.mkdir(parents=True)
        (self.home / "tmp").mkdir(parents=True)
        (self.home / ".gitconfig").write_text(CONFIG)
        self.programs = folder / "bin"
        self.programs.mkdir()
        (self.programs / "python3").symlink_to(sys.executable)
        self.said = folder / "said"
        """The output of the last command."""
        path = os.pathsep.join((str(self.programs), os.environ.get("PATH", os.defpath)))
        home = str(self.home)
        self.environ = {**os.environ, "HOME": home, "TMPDIR": f"{home}/tmp", "PATH": path, "GIT_CONFIG_NOSYSTEM": "1"}
        os.environ["HOME"] = home
        self.files: dict[str, list[Line]] = {}
        self.endings: dict[str, tuple[bytes, bytes]] = {}
        """The line end of a file, and its last one; where it is not named, both are a newline."""
        self.known: dict[tuple[str, str], list[Line]] = {}
        self.exact = False
        """Whether the calls' own words leave no doubt, so that a diff's does not count."""
        self.standing = ""
        """The folder below the root that agents stand in."""
        self.calls = 0
        self.hands: set[str] = set()
        self.commits = 0
        self.sessions: list[Session] = []
        self.git("init", "-q")

    # -- what is there from the start

    def begin(self, files: Mapping[str, Texts]) -> None:
        """The first commit, made before any tool is there; then the tool is set up."""
        for path, contents in files.items():
            self.put(path, written(contents, BEFORE))
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "first")
        self.tool.install(self.root, self.home, INTENTS)

    def session(
        self, agent: str = "claude-code", intent: str = "INT-001", subagent_of: Session | None = None
    ) -> Session:
        """A conversation that has just begun, with its intent."""
        name = f"session-{len(self.sessions) + 1}"
        if subagent_of:
            found = Session(subagent_of.agent, subagent_of.id, intent, subagent=f"sub{len(self.sessions) + 1}")
        else:
            found = Session(agent, name, intent)
        self.sessions.append(found)
        if not subagent_of:
            self.tell(found, "SessionStart", source="startup")
        self.tool.select(found)
        return found

    # -- git

    def git(self, *words: str, ok: Iterable[int] = (0,), cwd: Path | None = None, **environ: str) -> str:
        """Real git, as a person types it."""
        done = subprocess.run(
            ["git", *words], cwd=cwd or self.root, env={**self.environ, **environ}, capture_output=True, check=False
        )
        if done.returncode not in ok:
            raise BrokenScenario(f"git {' '.join(words)}: {done.stderr.decode(errors='replace')}")
        return done.stdout.decode("utf-8", "surrogateescape").strip()

    def commit(self, *words: str, message: str = "") -> str:
        """Everything, in one commit."""
        self.commits += 1
        self.git("add", "-A")
        subject = message or f"change {self.commits}"
        self.git("commit", "-q", "--allow-empty", *words, "-m", self.tool.message(subject, sorted(self.hands)))
        self.hands.clear()
        return self.head()

    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    # -- the files

    def data(self, path: str) -> bytes:
        """The bytes that the file has to have."""
        return self.data_of(path, self.files[path])

    def data_of(self, path: str, lines: Sequence[Line]) -> bytes:
        """The bytes that these lines would be as that file."""
        end, last = self.endings.get(path, (b"\n", b"\n"))
        return end.join(line.text for line in lines) + last if lines else b""

    def put(self, path: str, lines: Sequence[Line]) -> None:
        """Write a file, without anybody being told."""
        self.files[path] = list(lines)
        self.remember(path)
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(self.data(path))

    def rename(self, old: str, new: str) -> None:
        """A file gets another name."""
        (self.root / new).parent.mkdir(parents=True, exist_ok=True)
        (self.root / old).rename(self.root / new)
        self.files[new] = self.files.pop(old)
        self.remember(new)

    def remove(self, path: str) -> None:
        """A file goes."""
        (self.root / path).unlink()
        del self.files[path]

    def remember(self, path: str) -> None:
        """So that this version is known again in a commit."""
        self.remember_as(path, self.files[path])

    def remember_as(self, path: str, lines: Sequence[Line]) -> None:
        """The same, of a version that is somewhere else."""
        self.known[path, digest(self.data_of(path, lines))] = list(lines)

    def expect(self, files: Mapping[str, Sequence[Line]]) -> None:
        """What a rewrite must have left. Raises BrokenScenario."""
        self.files = {path: list(lines) for path, lines in files.items()}
        self.check()

    def is_written(self, path: str, lines: Sequence[Line]) -> bool:
        """Whether a file has these lines on disk."""
        place = self.root / path
        return place.is_file() and place.read_bytes() == self.data_of(path, lines)

    def check(self) -> None:
        """That the files on disk are those of the model. Raises BrokenScenario."""
        for path in self.files:
            found = (self.root / path).read_bytes()
            if found != self.data(path):
                raise BrokenScenario(f"{path!r} holds {found[:300]!r}, not {self.data(path)[:300]!r}")
            self.remember(path)

    def learn(self, by: Author) -> bool:
        """Take the lines of all files from disk, and return whether any changed. A text that some version had before
        keeps its author, wherever it is now; all others are new, and `by` wrote them.
        """
        listed = self.git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
        paths = [
            path for path in listed.split("\0") if path and not path.startswith(".") and (self.root / path).exists()
        ]
        known = {line.text: line for lines in self.known.values() for line in lines if is_distinctive_line(line.text)}
        found: dict[str, list[Line]] = {}
        for path in paths:
            content = (self.root / path).read_bytes()
            again = self.known.get((path, digest(content)))
            found[path] = again or recognised(self.files.get(path, []), content.split(b"\n")[:-1], known, by)
        before, after = ({path: texts(lines) for path, lines in side.items()} for side in (self.files, found))
        self.expect(found)
        return before != after

    def learn_change(self, by: Author) -> None:
        """The same, of a command that must change something. Raises BrokenScenario."""
        if not self.learn(by):
            raise BrokenScenario(f"nothing changed: {self.said.read_text()[:500]}")

    def settle(self) -> None:
        """Note what no diff between the commits can tell, from the history as it is now."""
        self.check()
        for path in () if self.exact else self.files:
            out = self.git("log", "--first-parent", "--reverse", "--format=%H", "--", path)
            versions = [self.known.get((path, self.committed(f"{name}:{path}"))) for name in out.split()]
            doubt_along([v for v in [*versions, self.files[path]] if v is not None])

    def at_head(self, path: str) -> list[Line]:
        """The lines of a file as the newest commit has it; none where it has not."""
        return self.known.get((path, self.committed(f"HEAD:{path}")), [])

    def committed(self, name: str) -> str:
        """The digest of a version that git has."""
        run = ["git", "cat-file", "blob", name]
        return digest(subprocess.run(run, cwd=self.root, env=self.environ, capture_output=True, check=False).stdout)

    # -- people and programs

    def person(self, path: str, lines: Sequence[Line], who: Author = PERSON) -> None:
        """Somebody writes a file with an editor; a program does, where `who` says so."""
        doubt(self.files.get(path, []), lines, who)
        self.put(path, lines)

    # -- agents

    def agent(self, session: Session, path: str, lines: Sequence[Line], how: How = "write") -> None:
        """A session gives a file these lines, by one call: hooks before and after, and the writing between."""
        if path in self.files and how not in ("shell", "script"):
            self.read(session, path)
        call = self.called(session, path, lines, how)
        if how in ("shell", "script"):
            was_contained = self.run(session, call[1]["command"])
            # What a file may not become is dropped, and the agent is told.
            if not was_contained or self.is_written(path, lines):
                self.credit(session, path, lines, "shell" if was_contained else how)
            self.check()
            return
        self.before(session, call)
        self.agent_wrote(session, path, lines, how)
        self.after(session, call)

    def untold(self, session: Session, path: str, lines: Sequence[Line], how: How) -> None:
        """The same, where the tool's answer tells what a diff of the contents says, and not where it wrote."""
        self.read(session, path)
        name, given, response = self.called(session, path, lines, how)
        doubt(self.files[path], lines, author(session))
        start = common([o.text for o in self.files[path]], [n.text for n in lines])
        count = len(lines) - len(self.files[path])
        added = [f"+{line.text.decode()}" for line in lines[start : start + count]]
        hunk = {"oldStart": start, "oldLines": 0, "newStart": start + 1, "newLines": count, "lines": added}
        told = name in ("Write", "Edit", "MultiEdit")
        call: Call = (name, given, {"filePath": given["file_path"], "structuredPatch": [hunk]} if told else response)
        self.before(session, call)
        self.agent_wrote(session, path, lines, how)
        self.after(session, call)

    def put_quietly(self, session: Session, path: str, lines: Sequence[Line]) -> None:
        """A call on a file too large to think about what a diff could say otherwise."""
        self.read(session, path)
        call = self.called(session, path, lines, "edit")
        self.before(session, call)
        self.put(path, lines)
        self.hands.add(session.agent)
        self.after(session, call)

    def agent_wrote(self, session: Session, path: str, lines: Sequence[Line], how: How) -> None:
        """The writing itself, by somebody who plays the agent."""
        self.credit(session, path, lines, how)
        self.put(path, lines)

    def credit(self, session: Session, path: str, lines: Sequence[Line], how: How) -> None:
        """Note that a file has these lines by a call. Only an edit tells the place of its lines; of all else, contents
        are what there is; of a script not even they tell who wrote.
        """
        if how not in ("edit", "multi"):
            doubt(self.files.get(path, []), lines, author(session))
        if how == "script":
            old = set(map(id, self.files.get(path, [])))
            for line in lines:
                line.open = line.open or id(line) not in old
        self.files[path] = list(lines)
        self.remember(path)
        self.hands.add(session.agent)

    def shell(self, session: Session, command: str, during: Callable[[], None]) -> None:
        """A command that is not run: `during` does what it would do. Raises BrokenScenario where a tool gives it other
        words, and so would run it itself.
        """
        call: Call = ("Bash", {"command": command}, ANSWER)
        if self.before(session, call) is not call:
            raise BrokenScenario(f"the effects of {command!r} are only played")
        during()
        self.hands.add(session.agent)
        self.after(session, call)

    def run(self, session: Session, command: str, meanwhile: Callable[[], None] | None = None) -> bool:
        """Run a shell command of a session as its hook says, and return whether the tool gave it other words.

        `meanwhile` happens while the command waits at the word `meet` in its text.
        """
        call: Call = ("Bash", {"command": command}, ANSWER)
        given = self.before(session, call)
        with ExitStack() as stack:
            server = stack.enter_context(create_server(("127.0.0.1", 0)))
            server.settimeout(MAX_WAIT_S)
            meet = self.programs / "meet"
            meet.write_text(f"#!/bin/bash\nread -r word < /dev/tcp/127.0.0.1/{server.getsockname()[1]}\ntrue\n")
            meet.chmod(0o755)
            said = stack.enter_context(self.said.open("wb"))
            words, here = ["bash", "-c", given[1]["command"]], self.root / self.standing
            running = subprocess.Popen(
                words, cwd=here, env=self.environ, stdin=subprocess.DEVNULL, stdout=said, stderr=said
            )
            stack.enter_context(running)
            if meanwhile:
                stack.enter_context(server.accept()[0])
                meanwhile()
        self.hands.add(session.agent)
        self.after(session, given)
        return given is not call

    def wait_for(self, is_done: Callable[[], bool]) -> None:
        """Wait until something has happened. Raises BrokenScenario."""
        end = time.monotonic() + MAX_WAIT_S
        while not is_done():
            if time.monotonic() > end:
                raise BrokenScenario("what was waited for never came")
            time.sleep(0.05)

    def read(self, session: Session, path: str) -> None:
        """The session reads a file, each time in words of its own: two agents that say the same within two seconds may
        be one, whose hooks another runs as well.
        """
        if session.agent == "codex":
            return
        name = "read_file" if session.agent == "gemini" else "Read"
        given = {"file_path": str(self.root / path), "limit": 10_000 + self.calls}
        call: Call = (name, given, {})
        self.before(session, call)
        self.after(session, call)

    def before(self, session: Session, call: Call) -> Call:
        """Tell the tool of a call that is to come; return the call as it then is to run."""
        self.calls += 1
        name = f"call_{self.calls}"
        given = self.tell(session, "PreToolUse", tool_name=call[0], tool_input=call[1], tool_use_id=name)
        return (call[0], dict(given), call[2]) if given else call

    def after(self, session: Session, call: Call) -> None:
        said = {"tool_name": call[0], "tool_input": call[1], "tool_response": call[2]}
        self.tell(session, "PostToolUse", tool_use_id=f"call_{self.calls}", **said)

    def prompt(self, session: Session) -> None:
        """A person writes to the agent."""
        self.tell(session, "UserPromptSubmit", prompt="go on")

    def stop(self, session: Session) -> None:
        """The agent's turn is over."""
        self.tell(session, "Stop", stop_hook_active=False)

    def end(self, session: Session) -> None:
        """The conversation is over."""
        self.tell(session, "SessionEnd", reason="other")

    def tell(self, session: Session, event: str, **fields: Any) -> Mapping[str, Any]:
        document: dict[str, Any] = {
            "session_id": session.id,
            "cwd": str(self.root / self.standing),
            "hook_event_name": EVENTS.get(session.agent, {}).get(event, event),
            "permission_mode": "bypassPermissions",  # the agent asks its person nothing by itself
            **fields,
        }
        if session.subagent:
            document["agent_id"] = session.subagent
        return self.tool.hook(session, document["hook_event_name"], document)

    def called(self, session: Session, path: str, lines: Sequence[Line], how: How) -> Call:
        """The call as the agent's hook tells it: the tool's name, its arguments, its answer."""
        file = str(self.root / path)
        old, new = self.files.get(path, []), list(lines)
        end, last = self.endings.get(path, (b"\n", b"\n"))
        content = (end.join(line.text for line in new) + last).decode("utf-8", "replace")
        response: dict[str, Any] = {"filePath": file, "structuredPatch": patch(old, new), "userModified": False}
        match how:
            case "write":
                return "Write", {"file_path": file, "content": content}, {"type": "update", **response}
            case "edit":
                a, b = strings(old, new)
                return "Edit", {"file_path": file, "old_string": a, "new_string": b, "replace_all": False}, response
            case "multi":
                a, b = strings(old, new)
                return "MultiEdit", {"file_path": file, "edits": [{"old_string": a, "new_string": b}]}, response
            case "patch":
                done = "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated the following files:\n"
                return "apply_patch", {"command": v4a(file, old, new)}, done
            case "shell":
                text = f"cat > '{path}' <<'END_OF_TEXT'\n{content}END_OF_TEXT"
                return "Bash", {"command": text}, ANSWER
            case "script":
                return "Bash", {"command": self.program(path, lines)}, ANSWER

    def program(self, path: str, lines: Sequence[Line]) -> str:
        """The command that runs a new program which gives a file these lines, and whose text tells nothing of them."""
        content = base64.b64encode(self.data_of(path, lines)).decode()
        place = self.programs / f"write{self.calls}.py"
        place.write_text(PROGRAM.format(path=path, content=content))
        return f"python3 {place}"


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def recognised(old: Sequence[Line], new: Sequence[bytes], known: Mapping[bytes, Line], by: Author) -> list[Line]:
    """The lines of a new content: those of the old one that stayed, known ones, and for the rest new ones. A line that
    says nothing of its own (`}`) has the author of the line before.
    """
    found: list[Line] = []
    for tag, a, a_end, b, b_end in SequenceMatcher(None, texts(old), new, autojunk=False).get_opcodes():
        if tag == "equal":
            found += old[a:a_end]
            continue
        last = by
        for text in new[b:b_end]:
            was = known.get(text)
            last = was.who if was else by if is_distinctive_line(text) else last
            found.append(Line(text, last, set(was.also) if was else set[Author]()))
    return found


def author(session: Session) -> Author:
    """Whose lines a session's are."""
    return Author("ai", session.id, session.intent)


def kept(old: Sequence[Line], new: Sequence[Line]) -> tuple[int, int]:
    """How many lines both begin and end with: the same things, not the same texts."""
    start = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a is not b), min(len(old), len(new)))
    a, b = old[start:][::-1], new[start:][::-1]
    return start, next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x is not y), min(len(a), len(b)))


def steps(old: Sequence[Line], new: Sequence[Line]) -> list[tuple[str, Line]]:
    """One sign and one line each: what stays, what goes and what comes, by the things that the lines are."""
    matcher = SequenceMatcher(None, [id(line) for line in old], [id(line) for line in new], autojunk=False)
    found: list[tuple[str, Line]] = []
    for tag, a, a_end, b, b_end in matcher.get_opcodes():
        if tag == "equal":
            found += [(" ", line) for line in old[a:a_end]]
        else:
            found += [*(("-", line) for line in old[a:a_end]), *(("+", line) for line in new[b:b_end])]
    return found


def patch(old: Sequence[Line], new: Sequence[Line]) -> list[dict[str, Any]]:
    """One hunk over the whole file, as the agent's own answer tells it."""
    signed = [sign + line.text.decode("utf-8", "replace") for sign, line in steps(old, new)]
    return (
        [{"oldStart": 1, "oldLines": len(old), "newStart": 1, "newLines": len(new), "lines": signed}] if signed else []
    )


def strings(old: Sequence[Line], new: Sequence[Line]) -> tuple[str, str]:
    """`old_string` and `new_string` of an edit: what differs, with a line of context where there is one."""
    start, end = kept(old, new)
    start, end = max(0, start - 1), max(0, end - 1)
    a, b = old[start : len(old) - end], new[start : len(new) - end]
    return text(a), text(b)


def text(lines: Sequence[Line]) -> str:
    return b"\n".join(line.text for line in lines).decode("utf-8", "replace")


def v4a(file: str, old: Sequence[Line], new: Sequence[Line]) -> str:
    """The change as `apply_patch` takes it, three lines of context around."""
    signed = [sign + line.text.decode("utf-8", "replace") for sign, line in steps(old, new)]
    start = next((n for n, line in enumerate(signed) if line[0] != " "), len(signed))
    body = signed[max(0, start - 3) :] if old else signed
    return "\n".join(
        [
            "*** Begin Patch",
            f"*** {'Update' if old else 'Add'} File: {file}",
            *(["@@"] if old else []),
            *body,
            "*** End Patch",
        ]
    )
