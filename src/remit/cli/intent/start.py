"""`remit start`: begin work with a sentence. An agent reads first, proposes an intent, and a person says yes to it."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from remit.cli.intent.bind import name_place
from remit.cli.output import Failure, command_options, emit, governed_gate, warn
from remit.cli.person_only import require_person
from remit.core.acts import Act
from remit.core.agents import ROWS
from remit.core.bounds import REQUEST_BYTES
from remit.core.record import Body
from remit.core.redaction import redact
from remit.core.untrusted_input import sanitise_line
from remit.gate.intents.bindings import Binding, Bindings, cut_request, name_request
from remit.workspace.safe_files import read_regular_file

FETCH_TIMEOUT_S = 20.0
ISSUE_PATH = re.compile(r"/[\w.-]+(?:/[\w.-]+)+/(?:-/)?issues/\d+/?")


@click.command()
@click.argument("request")
@click.option("--agent", type=click.Choice([*ROWS]), help="Start this agent with it, here.")
@click.option("--worktree", is_flag=True, help="For the sessions of this work tree, not of this terminal.")
@click.option("--branch", metavar="NAME", help="For the sessions on this branch.")
@command_options
def start(request: str, agent: str | None, worktree: bool, branch: str | None, repo: Path, as_json: bool) -> None:
    """Say what is to be done: a sentence, a file such as specs/limits.md, or the address of an issue.

    The next session of this terminal is told, reads, and proposes an intent at its first change; you say yes by one
    key. Nothing is written but a record.

    Example: remit start "rate limits for login" --agent claude-code
    """
    require_person(Act.MAKE_INTENT)
    gate = governed_gate(repo)
    text, url = read_request(request, gate.workspace.root)
    place = name_place(gate, None, terminal=not worktree and branch is None, worktree=worktree, branch=branch)
    binding = Binding(*place, request=text, url=url, at=gate.environment.clock.now())
    detail = {"request": redact(text), "place": place[0], **({"url": redact(url)} if url else {})}
    body = Body(event="work_requested", intent_id=None, session_id=None, detail=detail)
    gate.recorder.append([gate.recorder.make_record(body)])
    Bindings(gate.state).put(binding)
    where = {"worktree": "in this work tree", "terminal": "in this terminal"}.get(place[0], f"on {place[1]}")
    next_step = f"The next session {where} is told, and proposes an intent: `remit approvals watch` asks you."
    emit(binding, as_json, [f'asked for: "{name_request(text)}"', next_step])
    if agent is not None:
        start_agent(agent, text, gate.workspace.root)


def start_agent(agent: str, text: str, root: Path) -> None:
    """Replace this process by the agent, whose first prompt is the request's name. Raises Failure without a program."""
    program = shutil.which(ROWS[agent].binary)
    if program is None:
        raise Failure("NO_AGENT", f"there is no {ROWS[agent].binary!r} on PATH", fix="start the agent by hand")
    os.chdir(root)
    os.execv(program, [program, *ROWS[agent].prompt_options, name_request(text)])


def read_request(given: str, root: Path) -> tuple[str, str]:
    """Return the text of a request, and the address that it came from. Raises Failure."""
    if given.startswith(("https://", "http://")):
        return read_issue(given), given
    path = Path(given)
    if path.suffix.lower() in (".md", ".markdown", ".txt") and "\n" not in given:
        try:
            text = read_regular_file(path, REQUEST_BYTES.value).decode("utf-8", "replace")
        except (OSError, ValueError) as error:
            fix = f"a request has at most {REQUEST_BYTES.value // 1024} KiB; say it in a sentence"
            raise Failure("UNREADABLE", f"{given!r} cannot be read: {error}", fix=fix) from None
        url = path.resolve().relative_to(root).as_posix() if path.resolve().is_relative_to(root) else ""
    else:
        text, url = given, ""
    if not text.strip():
        raise Failure("USAGE", "the request says nothing", fix='for example: remit start "rate limits for login"')
    return cut_request(text), url


def read_issue(url: str) -> str:
    parts = urlsplit(url)
    is_plain = ISSUE_PATH.fullmatch(parts.path) and not parts.query and not parts.username and parts.scheme == "https"
    program = "glab" if "gitlab" in (parts.hostname or "") or "/-/" in parts.path else "gh"
    found = shutil.which(program) if is_plain else None
    if found is None:
        warn(f"{sanitise_line(url, 200)} was not read: {f'there is no {program}' if is_plain else 'it is no issue'}")
        return cut_request(url)
    words = [found, "issue", "view", url, *(["--json", "title,body"] if program == "gh" else ["--output", "json"])]
    try:
        done = subprocess.run(words, capture_output=True, timeout=FETCH_TIMEOUT_S, check=True, stdin=subprocess.DEVNULL)
        document: dict[str, Any] = json.loads(done.stdout)
        title, body = str(document["title"]), str(document.get("body") or document.get("description") or "")
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError) as error:
        warn(f"{program} did not tell it ({type(error).__name__}); the address alone is the request")
        return cut_request(url)
    return cut_request(f"# {title}\n\n{body}")
