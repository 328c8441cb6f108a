"""What a person reads on a terminal passes one function, `remit.cli.output.say`, which escapes what terminals obey."""

import ast
from collections.abc import Iterator
from pathlib import Path

from sources import PACKAGES, REMIT, name_source

OTHER_DOORS = {
    "output.py": "the door itself",
    "ask_daemon.py": "the daemon's answer, which `remit blame` has escaped; starts without click",
    "hook.py": "an agent reads it: bytes of its protocol",
    "screen.py": "the pager's input, which its callers have escaped, where no pager starts",
    "view.py": "rich prints into a text, which `emit_view` escapes",
    "blame/blame.py": "an answer for a pipe, or one that `render_blame` has escaped",
    "remit_agent/faces/terminal/blocks.py": "rich prints into a text of the conversation, each part escaped",
    "remit_agent/faces/terminal/screen.py": "the conversation's blocks, escaped in blocks.py, above live lines",
    "policy/approvals.py": "the bell of a new card",
    "completion.py": "click's own script for a shell",
}
"""Files that write to a stream by another way, each with the reason why nothing unescaped comes out there."""

WRITERS = {"click.echo", "click.secho", "click.echo_via_pager", "print", "sys.stdout.write", "sys.stderr.write"}
BYTE_WRITERS = {"sys.stdout.buffer.write", "sys.stderr.buffer.write", "console.print", "write_all"}


def find_writes(path: Path) -> Iterator[int]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            streams = {ast.unparse(argument) for argument in node.args} & {"sys.stdout", "sys.stdout.buffer"}
            if name in WRITERS | BYTE_WRITERS or (streams and name != "Vt100_Output"):
                yield node.lineno


def test_everything_goes_through_the_one_door() -> None:
    folders = (REMIT / "cli", *PACKAGES[1:])
    paths = [path for folder in folders for path in folder.rglob("*.py")]
    assert {name_source(path).removeprefix("cli/") for path in paths if any(find_writes(path))} == OTHER_DOORS.keys()
