"""What was said is taken in by the daemon, while nobody waits."""

import json
import shutil
import socket
from importlib.metadata import version
from pathlib import Path

from gate.driving import governed
from remit.console.control import ConsoleControl
from remit.gate.gate import Gate
from remit.provenance.why.conversation_store import DATABASE_FILE, Conversations
from remit.servers.daemon import VERSION_MISMATCH, Daemon, HookRequest
from remit.servers.hook import HookFrame


def test_a_daemon_whose_files_were_replaced_leaves_the_call_to_a_fresh_process(home: Path, tmp_path: Path) -> None:
    installed, newer = tmp_path / "remit.py", tmp_path / "newer.py"
    installed.touch()
    newer.touch()
    daemon = Daemon(home, "1", ConsoleControl(home), installed=str(installed))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert not daemon.sends_away(ours, "1")
        newer.replace(installed)
        assert daemon.sends_away(ours, "1")
        assert theirs.recv(9) == VERSION_MISMATCH
    assert daemon.stopping.is_set()


def test_the_daemon_keeps_what_was_said_before_the_agent_deletes_it(repository: Path, home: Path) -> None:
    governed(repository, "observe")
    transcript = home / "session.jsonl"
    transcript.write_text('{"type":"user","uuid":"1","message":{"content":"please"}}\n')
    document = {
        "hook_event_name": "PreToolUse",
        "session_id": "s",
        "cwd": str(repository),
        "transcript_path": str(transcript),
        "tool_name": "Bash",
        "tool_use_id": "toolu_1",
        "tool_input": {"command": "touch src/new.py"},
    }
    daemon = Daemon(home, version("remit"), ConsoleControl(home))
    frame = HookFrame("claude-code", str(repository), "pre")
    request = HookRequest(version("remit"), frame, {"HOME": str(home)}, json.dumps(document).encode())
    ours, theirs = socket.socketpair()
    with ours, theirs:
        daemon.answer_request(request, ours)
    daemon.store_conversations()
    shutil.move(transcript, home / "elsewhere")
    folder = Gate.open(repository).workspace.state
    assert (folder / DATABASE_FILE).exists()
    with Conversations.open(folder, 90) as kept:
        assert [one.text for one in kept.entries_of_session("s")] == ["please"]
