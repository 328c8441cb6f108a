"""The daemon takes contents into git while calls go on, and may be killed while it does."""

import json
import subprocess

import pytest

from gate.driving import body, records
from remit.core.diff.contents import hash_git_blob
from remit.gate.gate import Gate
from servers.test_daemon import Installed, binary, installed
from waiting import WAIT_S, wait_until

__all__ = ["binary", "installed"]
"""Fixtures of a daemon in a process of its own."""

LINES = 60_000
MAX_EDITS = 120  # an edit may take longer than a folding that it does not see


class Edits:
    """Edits of one large file without a pause: more contents than may wait until there is one."""

    def __init__(self, installed: Installed) -> None:
        self.installed = installed
        self.path = installed.repository / "src" / "large.py"
        self.lines = [f"{'value ' * 8}{number}\n" for number in range(LINES)]
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text("".join(self.lines))
        self.contents = {hash_git_blob(self.path.read_bytes())}
        self.count = 0
        self.folding = installed.repository / ".git/remit/contents/folding"

    def edit(self) -> None:
        old, new = self.lines[self.count], f"edit {self.count}\n"
        tool_input = {"file_path": str(self.path), "old_string": old, "new_string": new}
        self.tell("pre", hook_event_name="PreToolUse", tool_input=tool_input)
        self.lines[self.count] = new
        self.path.write_text("".join(self.lines))
        self.contents.add(hash_git_blob(self.path.read_bytes()))
        self.tell("post", hook_event_name="PostToolUse", tool_input=tool_input, tool_response={})
        self.count += 1

    def tell(self, kind: str, **more: object) -> None:
        root = self.installed.repository
        call = {"session_id": "s1", "cwd": str(root), "tool_name": "Edit", "tool_use_id": f"t{self.count}", **more}
        words, payload = [self.installed.path, "claude-code", kind], json.dumps(call).encode()
        subprocess.run(words, input=payload, capture_output=True, cwd=root, timeout=WAIT_S, check=True)

    def edit_until_folding(self) -> None:
        """Edit until contents are on their way into git."""
        last = self.count + MAX_EDITS
        while not self.folding.exists():
            assert self.count < last, "nothing is folded while calls go on"
            self.edit()

    def pause_until_folded(self) -> None:
        """Let a daemon fold what the one before it left."""
        self.edit()
        waiting = self.folding.with_name("waiting")
        wait_until(
            lambda: not self.folding.exists() and not waiting.exists(), "what a killed daemon left is not folded"
        )


@pytest.mark.live
def test_kills_while_contents_are_folded_lose_no_version(installed: Installed) -> None:
    installed.remit("mode", "observe")
    edits = Edits(installed)
    for more in (0, 1, 3):
        installed.start()
        edits.pause_until_folded()
        edits.edit_until_folding()
        for _ in range(more):
            edits.edit()
        installed.leave()
    installed.start()
    edits.pause_until_folded()
    assert "the chain is whole" in installed.remit("ledger", "verify")
    changes = records(installed.repository, "mutation")
    blobs = [file["after"]["git_blob"] for change in changes for file in body(change)["files"]]
    assert len(blobs) == edits.count
    found = Gate.open(installed.repository).contents.load_many(edits.contents)
    assert found.keys() == edits.contents
    blamed = installed.remit("blame", "src/large.py", "-L", f"1,{edits.count}")
    assert blamed.count("claude") == edits.count
