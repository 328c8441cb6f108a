"""The agent's own permission dialog as a place where a person says yes to what the agent proposes by a command.

The hook before the command answers `ask`, with the question as its reason; the command runs only after the person's
yes, and the hook after it does what was asked for. Whatever could give that yes in a person's place makes it none: the
permission mode, the agent's settings, its command line, a terminal that no person holds, another process that plays the
hook. See `docs/how-to/answer-questions.md`.
"""

import os
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any

from msgspec import DecodeError, Struct, json

from remit.adapters.permissions import DIALOG_READERS
from remit.core.agents import ROWS
from remit.core.call import ToolCall, hash_arguments
from remit.core.python_runtime import prepare_type
from remit.core.record import KEY, format_utc
from remit.core.untrusted_input import sanitise_line
from remit.gate.containment.agent_permissions import find_rule_files, read_permission
from remit.gate.gate import Gate
from remit.gate.machine import HOOK_PID
from remit.gate.people.answer import format_question, identify_person
from remit.gate.people.questions import ApprovalReply, DialogQuestion, Question
from remit.servers.authority import MAX_CALL_S, Authority
from remit.tools.agent_tool import Caller, DialogAnswer
from remit.workspace.processes.peer_identity import Peer, read_peer_process, read_variables
from remit.workspace.processes.process_tracking import Incomplete, ProcessInfo, program_name

PAGE_FOLDERS = ("skills", "commands", "agents")
"""Folders in an agent's settings folder whose pages may bring hooks in their first lines."""
MAX_PAGES, PAGE_BYTES = 1000, 1 << 16
SHELLS = frozenset(["sh", "bash", "dash", "zsh", "ksh", "fish"])


class NoDialog(Exception):
    """The agent's dialog cannot ask a person, and why."""


class Asker(Struct, frozen=True):
    """The agent that shows a dialog, and the process that it started for the hook."""

    agent: ProcessInfo
    hook: ProcessInfo


def find_caller(gate: Gate, call: ToolCall, *, is_attempt: bool) -> Caller:
    """Return the caller of a command, with the agent's dialog where a yes there is a person's."""
    if call.agent not in DIALOG_READERS:
        return Caller(call.session, call.agent)
    try:
        find_asker(gate, call, is_attempt=is_attempt)
    except (NoDialog, Incomplete) as error:
        return Caller(call.session, call.agent, why_no_dialog=sanitise_line(str(error), 200))
    return Caller(call.session, call.agent, has_dialog=True, dialog_name="agent dialog")


def make_dialog_question(call: ToolCall, question: Question) -> DialogQuestion:
    """Return the question as it is kept until the command has run. Raises Incomplete, NoDialog."""
    asker = find_hook(call)
    return DialogQuestion(question, format_question(question), asker.agent.pid, asker.agent.started, asker.hook.started)


def take_answer(gate: Gate, call: ToolCall, *, is_attempt: bool) -> Caller | None:
    """Return the caller of a command that has run, with the person's yes; None if nobody was asked about it. The answer
    is none where something else could have let the command run.
    """
    if call.agent not in DIALOG_READERS:
        return None
    digest = hash_arguments([call.tool, call.arguments_sha256])
    announced = gate.state.take_remit_call(call.call_id, digest, gate.environment.clock.now())
    if announced is None or not announced.asked or announced.session != call.session:
        return None
    try:
        asked = json.decode(announced.asked, type=prepare_type(DialogQuestion))
    except DecodeError:
        return None
    why = ""
    try:
        asker = find_asker(gate, call, is_attempt=is_attempt)
        if (asker.agent.pid, asker.agent.started) != (asked.agent_pid, asked.agent_started):
            why = "another process says that the command ran"
        elif asker.hook.started < asked.hook_started:
            why = "the process that says so is older than the question"
        elif gate.environment.clock.now() >= asked.question.expires_at:
            why = "its time was over"
        elif has_run_command(gate, call, asked.question.asked_at):
            why = "another command of this session has run since the question"
    except (NoDialog, Incomplete) as error:
        why = str(error)
    reply = None if why else ApprovalReply(True, through="agent dialog", who=identify_person(gate))
    dialog_answer = DialogAnswer(asked.question, reply)
    return Caller(call.session, call.agent, dialog_answer=dialog_answer, why_no_dialog=sanitise_line(why, 200))


def has_run_command(gate: Gate, call: ToolCall, since: float) -> bool:
    """Return whether the session was let run another command since: what it started could play the hook."""
    start = format_utc(datetime.fromtimestamp(since, UTC))
    with gate.index() as index:
        found = index.iterate_records(event="tool_use", session_id=call.session.session_id, since=start)
        calls: Iterator[dict[str, Any]] = (document["metadata"][KEY].get("call") or {} for document in found)
        own = (call.call_id, call.arguments_sha256)
        return any(other.get("command") and (other.get("id"), other.get("arguments_sha256")) != own for other in calls)


def find_asker(gate: Gate, call: ToolCall, *, is_attempt: bool) -> Asker:
    """Return the agent whose dialog reaches a person. Raises NoDialog, Incomplete."""
    row, reader = ROWS[call.agent], DIALOG_READERS[call.agent]
    if is_attempt:
        raise NoDialog("a plan started this agent")
    if call.session.agent_id:
        raise NoDialog("a sub-agent asks")
    if call.permission_mode not in reader.DIALOG_MODES:
        raise NoDialog(f"its permission mode is {call.permission_mode or 'not known'}")
    if not call.call_id:
        raise NoDialog("the call has no id")
    asker = find_hook(call)
    if not asker.agent.terminal:
        raise NoDialog(f"{row.title} runs without a terminal")
    files = find_rule_files(row, call, asker.agent.argv, gate.workspace.root, gate.environment)
    if other := reader.find_other_answerer(files, asker.agent.argv):
        raise NoDialog(f"{other} may answer in the person's place")
    find_hooks_of_pages(gate, call)
    permission = read_permission(call, files, asker.agent.argv)
    if permission.effect != "ask":
        rule = f" by the rule {permission.rule.text} of {permission.rule.path}" if permission.rule is not None else ""
        raise NoDialog(f"the agent's own settings {permission.effect} this command{rule}")
    chain = read_peer_process(asker.agent.pid).chain
    agent = Peer(chain, variables=read_variables(asker.agent.pid))
    if doubt := Authority(gate.environment.home).find_doubt(agent):
        raise NoDialog(doubt)
    since = gate.environment.clock.now() - MAX_CALL_S
    others = (c for c in gate.state.list_open_calls() if c.session.session_id == call.session.session_id)
    if any(c.call_id != call.call_id and c.at > since and c.pending is not None and c.pending.whole for c in others):
        raise NoDialog("another command of this session is under way")
    return asker


def find_hooks_of_pages(gate: Gate, call: ToolCall) -> None:
    """Raise NoDialog if a page of a skill, command or sub-agent brings a hook that answers questions, or may do so."""
    row, environment, here = ROWS[call.agent], gate.environment, Path(call.cwd)
    places = [Path(environment.config_folders.get(call.agent) or environment.home / row.config_folder)]
    places += [folder / row.config_folder for folder in (here, *here.parents)]
    places += find_folders_below(gate.workspace.root, row.config_folder)
    seen = 0
    for tree in (place / name for place in dict.fromkeys(places) for name in PAGE_FOLDERS):
        for folder, _, names in os.walk(tree, followlinks=True):
            # Links may lead in circles: folders count, too.
            seen += 1 + len(names)
            if seen > MAX_PAGES:
                raise NoDialog(f"more than {MAX_PAGES} pages of skills and commands may bring hooks that answer")
            for page in (Path(folder, name) for name in names if name.endswith(".md")):
                if has_answering_hook(page):
                    raise NoDialog(f"the PermissionRequest hook of {page} may answer in the person's place")


def find_folders_below(root: Path, name: str) -> Iterator[Path]:
    for folder, names, _ in os.walk(root):
        names[:] = [inner for inner in names if inner != ".git"]
        if name in names:
            yield Path(folder, name)


def has_answering_hook(page: Path) -> bool:
    try:
        if not page.is_file():
            return False
        with page.open("rb") as file:
            text = file.read(PAGE_BYTES)
    except OSError:
        return True
    head, end, _ = text.partition(b"\n---")
    # YAML writes a key with escapes, too; and a head without an end goes on behind what was read.
    is_unclear = b"\\" in head or (not end and len(text) == PAGE_BYTES)
    return b"PermissionRequest" in text or (text.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"---") and is_unclear)


def find_hook(call: ToolCall) -> Asker:
    """Return the agent above the process that delivered a call, which must be the agent's hook as `init` wires it: the
    client, or the client below a shell that runs nothing before it. Raises NoDialog, Incomplete.
    """
    row = ROWS[call.agent]
    pid = HOOK_PID.get()
    if not pid:
        raise Incomplete("the hook's process is not known")
    peer = read_peer_process(pid)
    if peer.is_jailed or peer.is_elsewhere:
        raise NoDialog("the hook's process is contained")
    client, *above = peer.chain
    hook = above.pop(0) if above and is_shell_of(above[0], client) else client
    if list(client.argv[1:2]) != [row.agent] or not above or program_name(above[0].argv) != row.binary:
        raise NoDialog(f"{row.title} did not start the hook's process itself")
    return Asker(above[0], hook)


def is_shell_of(shell: ProcessInfo, client: ProcessInfo) -> bool:
    words = [word for word in shell.argv if word]
    if len(words) != 3 or PurePath(words[0]).name not in SHELLS or words[1] != "-c":
        return False
    try:
        first, *rest = shlex.split(words[2])
    except ValueError:
        return False
    own, *given = (word for word in client.argv if word)
    return Path(first).name == Path(own).name and rest[: len(given)] == given
