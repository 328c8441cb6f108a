"""Draw the pictures of the README from real runs: `python docs/pictures.py [FOLDER]`; by default into `docs/assets/`.

A scripted agent works in a throw-away repository: each of its calls goes through the real hook, and a person's
answers through the real terminal. The pictures are the output of `remit blame`, `remit why` and
`remit approvals watch` on a terminal of 100 columns.
"""

import fcntl
import os
import pty
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from remit.cli.demo import ScriptedAgent, use_repository

COLUMNS = 100
WAIT_S = 60.0
PROMPT = "Greet people by their name, and say good morning before noon."
BEFORE = "def greet():\n    return 'hello'\n"
GREETING = '''\
def greet(name, hour):
    """A greeting that fits the hour."""
    morning = "good morning" if hour < 12 else "hello"
    return f"{morning}, {name}"
'''
BY_HAND = "\n\nVERSION = '1.1'  # a person added this\n"
GUIDE = "# Guide\n\nCall `greet(name, hour)`.\n"

THEME = TerminalTheme(
    (13, 17, 23),
    (230, 237, 243),
    [(72, 79, 88), (255, 123, 114), (63, 185, 80), (210, 153, 34), (88, 166, 255), (188, 140, 255), (57, 197, 207),
     (177, 186, 196)],
    [(110, 118, 129), (255, 161, 152), (86, 211, 100), (227, 179, 65), (121, 192, 255), (210, 168, 255), (86, 212, 221),
     (240, 246, 252)],
)  # fmt: skip

FRAME = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<style>
.{unique_id}-matrix {{ font: {char_height}px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; \
line-height: {line_height}px; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>
<g transform="translate({terminal_x}, {terminal_y})">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""A frame of our own: the library's loads a font from elsewhere."""


class Terminal:
    """A `remit` command on a terminal of its own; `shown` is all that it printed."""

    def __init__(self, repository: Path, environment: dict[str, str], *words: str) -> None:
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
        command = [sys.executable, "-c", "from remit.cli import main; main()", *words]
        around = {**environment, "TERM": "xterm-256color", "GIT_PAGER": "cat", "PAGER": "cat", "COLUMNS": str(COLUMNS)}
        self.process = subprocess.Popen(
            command, cwd=repository, env=around, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        self.shown = ""
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self) -> None:
        """Read until the command closes its terminal."""
        try:
            while block := os.read(self.ours, 65536):
                self.shown += block.decode("utf-8", "replace")
        except OSError:
            return

    def expect(self, text: str) -> None:
        """Wait until the command has printed `text`. Raises TimeoutError."""
        until = time.monotonic() + WAIT_S
        while text not in self.shown:
            if time.monotonic() > until:
                raise TimeoutError(f"no {text!r} in {self.shown!r}")
            time.sleep(0.05)

    def type(self, text: str) -> None:
        """Type a line."""
        os.write(self.ours, text.encode() + b"\n")

    def finish(self) -> str:
        """Wait for the command's end, and return all that it printed."""
        self.process.wait(WAIT_S)
        self.reader.join(WAIT_S)
        os.close(self.ours)
        return self.shown

    def end(self) -> str:
        """End the command, and return all that it printed."""
        self.process.terminate()
        return self.finish()


def draw_pictures(folder: Path) -> None:
    """Run the story, and write `blame.svg`, `why.svg` and `approval.svg` into `folder`."""
    home = Path(tempfile.mkdtemp(prefix="remit-pictures-"))
    try:
        repository, environment = use_repository(home, name="greeter", content=BEFORE)
        shots = run_story(repository, environment)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    for name, (command, shown) in shots.items():
        (folder / f"{name}.svg").write_text(draw(command, shown, name), "utf-8")


def run_story(repository: Path, environment: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Play the story; by the picture's name, the command and what it printed."""
    agent = ScriptedAgent(repository, environment)
    app, guide = repository / "src" / "app.py", repository / "docs" / "guide.md"
    agent.hook("SessionStart", source="startup")
    agent.say("user", PROMPT)
    agent.use("mcp__remit__select_active_intent", intent_id="INT-001", reasoning="greetings by name were asked for")
    agent.use("Read", file_path=str(app))
    agent.say("assistant", [{"type": "text", "text": "greet() gets the name and the hour; noon decides."}])
    agent.use("Write", file_path=str(app), content=GREETING)
    app.write_text(GREETING + BY_HAND)
    approval = ask_for_the_guide(agent, repository, environment, guide)
    agent.hook("SessionEnd", reason="other")
    commit = ("-c", "user.name=Sam Doe", "-c", "user.email=sam@example.org", "commit", "-qm", "Greet by name (#12)")
    for words in (("add", "src", "docs"), commit):
        subprocess.run(["git", *words], cwd=repository, env=environment, check=True, capture_output=True)
    shots = {"approval": ("remit approvals watch", approval.replace(environment["HOME"], "~"))}
    for name, words in (("blame", ("blame", "-s", "src/app.py")), ("why", ("why", "src/app.py:3"))):
        shots[name] = (" ".join(("remit", *words)), Terminal(repository, environment, *words).finish())
    return shots


def ask_for_the_guide(agent: ScriptedAgent, repository: Path, environment: dict[str, str], guide: Path) -> str:
    """Let the agent write outside its scope while a person watches, and says yes for the intent."""
    guide.parent.mkdir()
    watcher = Terminal(repository, environment, "approvals", "watch")
    watcher.expect("Watching")
    call = threading.Thread(target=agent.use, args=("Write",), kwargs={"file_path": str(guide), "content": GUIDE})
    call.start()
    watcher.expect("[no]")
    watcher.type("i")
    watcher.expect("allowed, ")
    call.join(WAIT_S)
    time.sleep(0.2)
    return watcher.end()


def draw(command: str, shown: str, name: str) -> str:
    """Return the picture of a command and what it printed, as SVG."""
    text = shown.replace("\r\n", "\n").replace("\a", "").replace("^C", "").rstrip()
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115, PTH123
    console.print(Text.assemble(("$ ", "bright_black"), (command, "bold")))
    console.print(Text.from_ansi(text))
    return console.export_svg(title=command, theme=THEME, code_format=FRAME, unique_id=f"remit-{name}")


if __name__ == "__main__":
    draw_pictures(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "assets")
