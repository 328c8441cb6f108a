"""A patient agent: it begins its work, asks Remit's hook again and again, and goes on once a person has told it to, or
once it finds what an earlier attempt or a person has begun.

Run as `python patient_agent.py INTENT`.
"""

import json
import signal
import sys
import uuid
from pathlib import Path

from small_agent import call_hook


def write(session: str, path: Path, content: str) -> None:
    given = {"file_path": str(path), "content": content}
    use = {"tool_name": "Write", "tool_input": given, "tool_use_id": f"toolu_{uuid.uuid4().hex}"}
    call_hook(session, "PreToolUse", **use)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    answer = {"type": "create", "filePath": str(path), "content": content}
    call_hook(session, "PostToolUse", **use, tool_response=answer)


def read(session: str, path: Path) -> str:
    """Ask for a read, and return what Remit says beside."""
    given = {"file_path": str(path)}
    use = {"tool_name": "Read", "tool_input": given, "tool_use_id": f"toolu_{uuid.uuid4().hex}"}
    said = call_hook(session, "PreToolUse", **use)
    answer = {"type": "text", "file": {"filePath": str(path), "content": "", "numLines": 0}}
    said += call_hook(session, "PostToolUse", **use, tool_response=answer)
    texts = [json.loads(line).get("hookSpecificOutput", {}) for line in said.splitlines() if line.startswith("{")]
    return " ".join(text.get("additionalContext", "") for text in texts)


def main(intent: str) -> None:
    session = f"session-{uuid.uuid4()}"
    call_hook(session, "SessionStart", source="startup")
    folder = Path.cwd() / "src" / intent.lower()
    begun = folder / "begun.py"
    if begun.exists():
        write(session, folder / "made.py", f"# after {begun.read_text().strip()}\nmade_by = {intent!r}\n")
        return
    write(session, begun, "begun = 1\n")
    heard = ""
    while "finish" not in heard:
        heard = read(session, begun)
        signal.sigtimedwait([signal.SIGUSR1], 1.0)  # its calls load the machine
    write(session, folder / "made.py", f"# {' '.join(heard.split())}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
