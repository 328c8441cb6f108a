"""Calls of the agent's tools through a real gate, as the loop makes them."""

from collections.abc import Callable
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from gate.driving import governed, machine
from remit.core.call import Citation, SessionKey, ToolCall, hash_arguments
from remit.gate.gate import Gate
from remit.gate.perform import Performed
from remit_agent.models.messages import ImageRef, ToolCallPart
from remit_agent.tools.tool import HostTool, ToolContext, ToolFailure

OPEN_INTENT = """\
version: "1.0"
active_intents:
  - id: INT-001
    name: Everything
    status: IN_PROGRESS
    owned_scope: ["**"]
    constraints: [none]
    acceptance_criteria: [it works]
"""
SESSION = SessionKey("run-1")
CITED = {"intent_id": "INT-001", "mutation_class": "INTENT_EVOLUTION"}


class Folder:
    """The folder of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)

    def keep_image(self, content: bytes, media_type: str, name: str) -> ImageRef:
        digest = sha256(content).hexdigest()
        (self.path / digest).write_bytes(content)
        return ImageRef(digest, media_type, name)

    def read_image(self, sha256: str) -> bytes:
        return (self.path / sha256).read_bytes()

    def output_path(self, artifact_id: str) -> str:
        if not artifact_id.startswith("cmd-") or "/" in artifact_id:
            raise ToolFailure("NO_SUCH_OUTPUT", f"there is no output {artifact_id!r}")
        return str(self.path / f"{artifact_id.removesuffix('.txt')}.txt")


class Person:
    """What tools ask of the run, answered by a script; what was asked is kept."""

    def __init__(self, answers: dict[str, Any] | None = None) -> None:
        self.answers = answers or {}
        self.asked: list[tuple[Any, ...]] = []

    def reply(self, name: str, *given: Any) -> Any:
        self.asked.append((name, *given))
        found = self.answers.get(name)
        if isinstance(found, ToolFailure):
            raise found
        return found

    def ask_person(self, question: str, suggestions: tuple[tuple[str, str | None], ...]) -> str | None:
        return self.reply("ask_person", question, suggestions)

    def switch_mode(self, slug: str, reason: str) -> str:
        return self.reply("switch_mode", slug, reason)

    def start_child(self, mode: str, message: str, todos: str | None, scope: tuple[str, ...] | None) -> str:
        return self.reply("start_child", mode, message, todos, scope)

    def wait_for_command(self, artifact_id: str, seconds: float) -> bool:
        return bool(self.reply("wait_for_command", artifact_id, seconds))

    def stop_command(self, artifact_id: str) -> str:
        return self.reply("stop_command", artifact_id)

    def finish(self, result: str) -> str:
        return self.reply("finish", result)


class ToolDriver:
    """One session under an intent that owns everything, or one of its own."""

    def __init__(self, root: Path, home: Path, intents: str = OPEN_INTENT, mode: str = "enforce") -> None:
        self.gate = Gate.open(governed(root, mode, intents), machine(home))
        self.gate.intents.select(SESSION, "remit", "INT-001")
        self.root = root
        self.folder = Folder(root / ".git" / "remit" / "runs" / "run-1")
        self.person = Person()
        self.has_vision = True
        self.numbers = count(1)

    def context(self, tool: str, arguments: dict[str, Any], given: dict[str, Any]) -> ToolContext:
        part = ToolCallPart(f"call-{next(self.numbers)}", tool, arguments)
        citation = Citation(*(given.get(name) for name in Citation.__struct_fields__))

        def new_call() -> ToolCall:
            digest = hash_arguments(arguments)
            return ToolCall(
                "remit", SESSION, tool, "none", str(self.root), part.id,
                arguments_sha256=digest, arguments=arguments, citation=citation,
            )  # fmt: skip

        return ToolContext(self.gate, part, new_call, self.folder, self.person, self.has_vision)

    def perform(self, tool: HostTool, between: Callable[[], None] | None = None, **arguments: Any) -> Performed:
        """Prepare and perform a call; `between` runs before the gate is asked. Raises ToolFailure."""
        named = {**CITED, "expected_content_hash": None} if tool.cites_intent else {}
        cited = {key: arguments.pop(key, default) for key, default in named.items()}
        given = msgspec.convert(arguments, tool.arguments)
        prepared = tool.prepare(self.context(tool.name, {**arguments, **cited}, cited), given)
        if between is not None:
            between()
        return self.gate.perform(prepared.call, prepared.act)

    def run(self, tool: HostTool, **arguments: Any) -> str:
        """Return the output's text of an allowed call. Raises ToolFailure."""
        done = self.perform(tool, **arguments)
        assert done.output is not None, done.messages
        return done.output.text

    def fail(self, tool: HostTool, **arguments: Any) -> ToolFailure:
        """Return the failure of a call that changed nothing."""
        before = self.contents()
        try:
            self.perform(tool, **arguments)
        except ToolFailure as failure:
            assert self.contents() == before
            return failure
        raise AssertionError(f"{tool.name} did not fail")

    def contents(self) -> dict[str, bytes]:
        files = (path for path in self.root.rglob("*") if path.is_file() and ".git" not in path.parts)
        return {
            str(path.relative_to(self.root)): path.read_bytes() for path in files if ".orchestration" not in path.parts
        }
