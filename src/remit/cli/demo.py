"""`remit demo`: the whole story in a throw-away repository. No agent, no key, no network.

The agent is scripted, everything else is real: each call runs `remit hook` in a separate process, the intent is
selected through the MCP server, and changes happen on disk.
"""

import asyncio
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import click
import msgspec

from remit.cli.output import FINDINGS, say
from remit.core.agents.claude_code import CLAUDE_CODE
from remit.core.record import format_utc
from remit.wiring.doctor_checks import describe_containment_warning

STORY = """\
A repository with one intent: INT-001 "Greet people by name" owns src/** and nothing else.
An agent (scripted here) works in it. Every tool call it makes goes through `remit hook`.
"""

REMIT = (sys.executable, "-c", "from remit.cli import main; main()")
PROMPT = "Please greet people by their name."
OLD = "def greet():\n    return 'hello'\n"
NEW = 'def greet(name):\n    return f"hello {name}"\n'
TEAMMATE = "# reviewed by Kim\n"


class ScriptedAgent:
    """A stand-in for Claude Code: asks the hook, acts if allowed, and reports; its conversation is below HOME."""

    def __init__(self, repository: Path, environment: dict[str, str]) -> None:
        self.repository = repository
        self.environment = environment
        self.session = f"demo-{uuid4()}"
        self.transcript = (
            Path(environment["HOME"]) / CLAUDE_CODE.config_folder / "projects" / "-demo" / f"{self.session}.jsonl"
        )
        self.transcript.parent.mkdir(parents=True, exist_ok=True)
        self.last_output = ""

    def say(self, role: str, content: object) -> None:
        at = format_utc(datetime.now(UTC), "milliseconds")
        message = {"role": role, "model": CLAUDE_CODE.live.model, "content": content}
        entry = {"type": role, "uuid": f"{uuid4()}", "timestamp": at, "message": message}
        with self.transcript.open("ab") as file:
            file.write(msgspec.json.encode(entry) + b"\n")

    def hook(self, event: str, **fields: object) -> dict[str, Any]:
        session = {"session_id": self.session, "cwd": str(self.repository), "transcript_path": str(self.transcript)}
        payload = {**session, "hook_event_name": event, **fields}
        kind = {"PreToolUse": "pre", "PostToolUse": "post"}.get(event, "note")
        words = ("hook", CLAUDE_CODE.agent, kind)
        out = call_remit(self.repository, self.environment, *words, given=msgspec.json.encode(payload))
        return msgspec.json.decode(out).get("hookSpecificOutput", {}) if out else {}

    def use(self, tool: str, **arguments: object) -> str | None:
        """Make one tool call; return the reason if refused, else None."""
        call = {"tool_name": tool, "tool_input": arguments, "tool_use_id": f"toolu_{uuid4().hex[:12]}"}
        self.say("assistant", [{"type": "tool_use", "id": call["tool_use_id"], "name": tool, "input": arguments}])
        answer = self.hook("PreToolUse", **call)
        if answer.get("permissionDecision") == "deny":
            return str(answer["permissionDecisionReason"])
        arguments = answer.get("updatedInput", arguments)
        result: dict[str, Any] = {}
        if tool == "Write":
            Path(str(arguments["file_path"])).write_text(str(arguments["content"]))
        elif tool == "Bash":
            bash = ["bash", "-c", str(arguments["command"])]
            done = subprocess.run(bash, cwd=self.repository, env=self.environment, capture_output=True, check=False)
            result = {name: getattr(done, name).decode("utf-8", "replace") for name in ("stdout", "stderr")}
        elif tool.startswith("mcp__remit__"):
            name = tool.removeprefix("mcp__remit__")
            result = asyncio.run(self.ask_server(name, arguments, str(call["tool_use_id"])))
        note = self.hook("PostToolUse", **{**call, "tool_input": arguments}, tool_response=result)
        texts = str(result.get("stderr", "")).rstrip(), note.get("additionalContext", "")
        self.last_output = "\n".join(filter(None, texts)).replace("\n", f"\n{' ' * 14}")
        return None

    async def ask_server(self, tool: str, arguments: dict[str, object], call_id: str) -> dict[str, Any]:
        from mcp.client.client import Client
        from mcp.client.stdio import StdioServerParameters, stdio_client

        words, folder = [*REMIT[1:], "mcp"], str(self.repository)
        server = StdioServerParameters(command=REMIT[0], args=words, cwd=folder, env=self.environment)
        async with Client(stdio_client(server)) as client:
            meta: Any = {CLAUDE_CODE.call_id_key: call_id}
            result = await client.call_tool(tool, dict(arguments), meta=meta)
        return {"content": [block.model_dump(mode="json") for block in result.content]}


@click.command()
@click.option("--keep", is_flag=True, help="Leave the repository there, to look around in.")
def demo(keep: bool) -> None:
    """Show the whole story in a throw-away repository: denied, allowed, recorded, blamed."""
    home = Path(tempfile.mkdtemp(prefix="remit-demo-"))
    try:
        play_story(home)
    finally:
        if keep:
            say(f"The repository is still there: {home / 'repo'}")
        else:
            shutil.rmtree(home, ignore_errors=True)


def play_story(home: Path) -> None:
    repository, environment = use_repository(home)
    agent = ScriptedAgent(repository, environment)
    app = repository / "src" / "app.py"
    say(STORY)
    if warning := describe_containment_warning(home, home / "tmp"):
        say(f"warning: {warning}. What such a command changes out of scope fails, or is undone.\n")
    agent.hook("SessionStart", source="startup")
    agent.say("user", PROMPT)

    print_heading("1. The agent writes without an intent")
    show_refusal(agent.use("Write", file_path=str(app), content=NEW), "MISSING_OR_INVALID_INTENT")

    print_heading("2. It selects the intent, through the MCP server")
    show_allowed(
        agent.use("mcp__remit__select_active_intent", intent_id="INT-001", reasoning="the person asked for names")
    )

    print_heading("3. The same write now lands")
    agent.use("Read", file_path=str(app))
    show_allowed(agent.use("Write", file_path=str(app), content=NEW))

    print_heading("4. A file outside the scope")
    show_refusal(agent.use("Write", file_path=str(repository / "README.md"), content="# new\n"), "SCOPE_VIOLATION")

    print_heading("5. A teammate edits the file meanwhile; the agent, not knowing, writes over it")
    app.write_text(TEAMMATE + NEW)
    show_refusal(agent.use("Write", file_path=str(app), content=NEW + "\n\ngreet('you')\n"), "STALE_FILE")

    print_heading("6. It goes round by a shell command")
    show_refusal(agent.use("Bash", command="echo 'sneaky' >> README.md"), "COMMAND_BLOCKED")
    show_allowed(agent.use("Bash", command="for page in $(ls *.md); do echo 'sneaky' >> \"$page\"; done"))
    say(click.style("   found out  ", fg="yellow") + agent.last_output)

    agent.hook("SessionEnd", reason="other")
    for title, words in (
        ("7. What the ledger holds", ("log", "-n", "20")),
        ("8. Who wrote each line", ("blame", "-s", "src/app.py")),
        ("9. And why: the intent, what was asked, the edit", ("why", "src/app.py:3")),
        ("10. Nothing in the ledger was altered", ("ledger", "verify")),
    ):
        print_heading(title)
        run_remit(repository, environment, *words)
    say(closing_text())


def use_repository(home: Path, name: str = "repo", content: str = OLD) -> tuple[Path, dict[str, str]]:
    repository = home / name
    (repository / "src").mkdir(parents=True)
    (repository / "src" / "app.py").write_text(content)
    (repository / "README.md").write_text("# Greeter\n")
    (home / "tmp").mkdir()
    inherited = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TERM") if name in os.environ}
    environment = {**inherited, "HOME": str(home), "TMPDIR": str(home / "tmp"), "GIT_CONFIG_NOSYSTEM": "1"}
    identity = ("-c", "user.name=A Person", "-c", "user.email=person@example.org")
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), (*identity, "commit", "-q", "-m", "first")):
        subprocess.run(["git", *words], cwd=repository, env=environment, check=True, capture_output=True)
    for words in (
        ("init", "--yes", "--no-agents", "--mode", "enforce"),
        ("intent", "new", "Greet people by name", "--scope", "src/**", "--criterion", "greet() takes a name"),
    ):
        run_remit(repository, environment, *words, quiet=True)
    return repository, environment


def run_remit(repository: Path, environment: dict[str, str], *words: str, quiet: bool = False) -> None:
    if not quiet:
        say(click.style(f"   $ remit {' '.join(words)}", bold=True))
    out = call_remit(repository, environment, *words)
    if not quiet:
        say("".join(f"   {line}\n" for line in out.decode("utf-8", "replace").splitlines()), nl=False)


def call_remit(repository: Path, environment: dict[str, str], *words: str, given: bytes = b"") -> bytes:
    done = subprocess.run(
        [*REMIT, *words], input=given, cwd=repository, env=environment, capture_output=True, check=False
    )
    if done.returncode:
        raise click.ClickException(f"remit {' '.join(words)} failed: {done.stderr.decode('utf-8', 'replace')}")
    return done.stdout


def print_heading(title: str) -> None:
    say(click.style(f"\n{title}", bold=True))


def show_refusal(reason: str | None, code: str) -> None:
    if reason is None or code not in reason:
        say(click.style(f"   expected a refusal with {code}, got: {reason or 'allowed'}", fg="red"))
        sys.exit(FINDINGS)
    first, *rest = reason.splitlines()
    say(click.style("   refused    ", fg="red") + first)
    for line in rest:
        say(f"              {line}")


def show_allowed(reason: str | None) -> None:
    if reason is not None:
        say(click.style(f"   expected it to be allowed, got: {reason}", fg="red"))
        sys.exit(FINDINGS)
    say(click.style("   allowed", fg="green"))


def closing_text() -> str:
    own, found = Path(sys.executable).with_name("remit"), shutil.which("remit")
    remit = "remit" if found and Path(found).resolve() == own.resolve() else shlex.quote(str(own))
    return f"""
{click.style("That was it. In your own repository:", bold=True)}

   cd your-repository
   {remit} init                                 # wires your agents; nothing is refused yet
   {remit} intent new "…" --scope 'src/**'       # what an agent may do
   {remit} mode enforce                         # when you have seen enough of what it does
"""
