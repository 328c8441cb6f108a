"""A small agent: it asks Remit's own hook before and after its one write, as any agent does, and ends.

Run as `python small_agent.py INTENT SECONDS [PATH]`; SIGUSR1 ends its wait; exits 3 where the hook refuses.
"""

import json
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

REMIT = [sys.executable, "-c", "from remit.cli import main; main()"]


def call_hook(session: str, event: str, **fields: Any) -> str:
    payload = {"session_id": session, "cwd": str(Path.cwd()), "hook_event_name": event, "transcript_path": "", **fields}
    done = subprocess.run(
        [*REMIT, "hook", "claude-code"], input=json.dumps(payload).encode(), capture_output=True, check=False
    )
    answer = done.stdout.decode()
    print(f"{event} {done.returncode}", flush=True)
    if done.returncode or '"deny"' in answer:
        print(answer or done.stderr.decode(), flush=True)
        raise SystemExit(3)
    return answer


def note_release(number: int, frame: object) -> None:
    """Do nothing: the wait takes the signal."""


def main(intent: str, seconds: str, path: str = "") -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    signal.signal(signal.SIGUSR1, note_release)  # tells who looks that it is ready to be told
    session = f"session-{uuid.uuid4()}"
    call_hook(session, "SessionStart", source="startup")
    signal.sigtimedwait([signal.SIGUSR1], float(seconds))
    file = Path.cwd() / (path or f"src/{intent.lower()}/made.py")
    written = {"file_path": str(file), "content": f"made_by = {intent!r}\n"}
    use = {"tool_name": "Write", "tool_input": written, "tool_use_id": f"toolu_{uuid.uuid4().hex}"}
    call_hook(session, "PreToolUse", **use)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(written["content"])
    answer = {"type": "create", "filePath": str(file), "content": written["content"]}
    call_hook(session, "PostToolUse", **use, tool_response=answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
