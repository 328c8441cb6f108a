"""An agent with a transcript."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gate.driving import Agent

MESSAGE_TIME = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}.000Z"
MODEL = "claude-sonnet-5"


class Speaker(Agent):
    """An agent that writes its conversation as Claude Code does, before each call."""

    def __init__(self, cwd: Path, home: Path, session: str = "session-1", agent_id: str = "") -> None:
        super().__init__(cwd, home, session, agent_id)
        self.file = home / ".claude" / "projects" / "-repo" / f"{session}.jsonl"
        self.own = self.file.with_suffix("") / "subagents" / f"agent-{agent_id}.jsonl" if agent_id else self.file
        self.own.parent.mkdir(parents=True, exist_ok=True)

    def payload(self, event: str, **fields: Any) -> bytes:
        return super().payload(event, transcript_path=str(self.file), **fields)

    def add(self, kind: str, content: Any, **more: Any) -> None:
        message = {"role": kind, "model": MODEL, "content": content}
        uuid = f"{self.agent_id}{next(self.numbers)}"
        document = {"type": kind, "uuid": uuid, "timestamp": MESSAGE_TIME, "message": message, **more}
        with self.own.open("a") as file:
            file.write(json.dumps(document) + "\n")

    def says(self, text: str, kind: str = "text") -> None:
        self.add("assistant", [{"type": kind, kind: text}])

    def ask(self, tool: str, call_id: str = "", **arguments: Any) -> dict[str, Any]:
        call_id = call_id or f"toolu_{next(self.numbers)}"
        self.add("assistant", [{"type": "tool_use", "id": call_id, "name": tool, "input": arguments}])
        return super().ask(tool, call_id, **arguments)
