"""Containment of agents' shell calls: the hook replaces the command with the launcher's command.

The launcher (`hook exec` or `remit exec`) runs the agent's command over the workspace and drops violations. If an agent
accepts no replacement, the effects are compared afterwards like those of any call. Writes that the sandbox refuses show
only in the command's own output; they are explained to the model and recorded.
"""

import os
import re
import shlex
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from remit.adapters import can_rewrite, has_sandbox, replace_arguments, replace_command
from remit.core.bounds import COMMAND_BYTES
from remit.core.call import OWN_AGENT, ToolCall
from remit.core.decision import Decision, Facts, Finding, Mode, Waiver
from remit.core.machine_paths import CLIENT_PATH
from remit.core.shell_commands import Permission
from remit.core.untrusted_input import sanitise_line
from remit.gate.context import Answer, WorkspaceContext
from remit.gate.effects.other_writers import ChangesBetweenCalls, add_session_with_commands
from remit.gate.gather import gather_facts, scope_at_decision
from remit.gate.governing.rules import Rules
from remit.gate.records.call_records import record_denial
from remit.gate.state.database import StateError
from remit.gate.state.tickets import Tickets
from remit.gate.state.workspace_state import PendingCall, baseline_head
from remit.policy.commands.background_and_input import BACKGROUND_ARGUMENTS, find_background_word
from remit.policy.decide import CONTAIN_RULE, ask_about_unclear, classify, is_containment_needed
from remit.workspace.agents.transcripts import is_codex_unsandboxed
from remit.workspace.place.workspace import Workspace, locate_workspace
from remit.workspace.sandbox.containment import (
    IN_ATTEMPT,
    Containment,
    find_containment,
    find_repair_command,
    kind_for_workspace,
)

PYTHON_WORDS = ("-I", "-c", "from remit.cli import main; main()")

SHELL = "bash" if shutil.which("bash") else "sh"
"""Shell used by agents. A variable must not name the shell: Claude Code asks a person about such a command."""

MAX_SHOWN_CHARS = 2000
"""Characters of a command in a question to a person."""

CONFINING_WAYS = frozenset({"overlay", "bind"})
"""Ways of containment that prevent writes outside the scope while the command runs."""

ENTERED_FOLDER = re.compile(r"""\s*cd[ \t]+([\w./@%+:][\w./@%+:-]*|'[^']*')[ \t]*&&\s*(?=\S)""")
"""Leading `cd FOLDER &&`. Stays outside the launcher: some agents continue in the folder of their last shell."""

LAUNCHER_LINE = re.compile(
    rf" exec --session \S.*? --call (?P<token>[0-9a-f]{{16}}) -- {SHELL} -c (?P<text>.*)", re.DOTALL
)


UNRULED_REASON = "no permission rule allows it yet; /permissions adds one"

MAX_PATTERNS = 5
"""Scope patterns in one message."""

OVERLAY_REFUSAL = (
    "this command ran contained, and `Read-only file system` in its output is Remit's doing: it can write to the "
    "workspace, the temporary folder and caches; the rest of the machine, and what governs agents, is read-only. Write "
    "to one of those, or ask the person."
)
BIND_REFUSAL = (
    "this command ran contained, and `Read-only file system` in its output is Remit's doing: on this machine such a "
    "command can write only to the folders of the scope ({scope}), the temporary folder and git's. Write there, or ask "
    "the person to widen the scope."
)


KNOWN_CONTAINMENT: dict[Path, Containment] = {}
"""Containment available on this machine by HOME, looked up once in a process."""


class ContainmentPlan(Struct, frozen=True):
    """Execution of a call. `uncontained` is the reason against containment, if containment was due.

    `permission` is the verdict of the person's own rules on a contained command.
    """

    decision: Decision
    uncontained: str = ""
    permission: Permission = Permission("agent")


class CommandRewriter:
    """Containment of one agent's shell call."""

    def __init__(self, context: WorkspaceContext, *, in_process: bool = False) -> None:
        self.context = context
        self.in_process = in_process
        """Whether the gate's own process runs the command: then no agent has to accept the launcher."""

    @property
    def containment(self) -> Containment:
        home, workspace = self.context.environment.home, self.context.found_workspace
        if workspace is not None and workspace.is_assigned:
            return IN_ATTEMPT
        known = KNOWN_CONTAINMENT.get(home)
        if known is None or known.has_expired:
            known = KNOWN_CONTAINMENT[home] = find_containment(home, self.context.environment.temporary)
        return known

    def is_available(self, call: ToolCall, rules: Rules, waived: frozenset[Waiver]) -> bool:
        """Return True if the command can be contained. A command whose writes a person approved is not contained."""
        if call.command is None or rules.config.containment.rewrite == "off":
            return False
        if rules.mode != "enforce" and not self.has_floor(call):
            return False
        if any(code != "USER_REJECTED" for code, _ in waived) or classify(call) != "destructive":
            return False
        try:
            return self.containment.way in CONFINING_WAYS
        except OSError:
            return False

    def explain_bare_run(self, call: ToolCall, rules: Rules, *, available: bool) -> str:
        """Return why a command that leaves a background process would run uncontained in enforce. Raises OSError."""
        if call.command is None or rules.mode != "enforce" or classify(call) != "destructive":
            return ""
        if not find_background_word(call.command, call.arguments):
            return ""
        return self.explain_missing(call, rules, available=available)

    def exposes_git(self, call: ToolCall, rules: Rules, *, available: bool) -> bool:
        """Return True if nothing stages what a command of enforce does to git's folder. Raises OSError."""
        if rules.mode != "enforce" or self.context.workspace.is_assigned:
            return False
        return not available or not self.is_staged(call, rules)

    def is_staged(self, call: ToolCall, rules: Rules) -> bool:
        """Return True if a command that can be contained in enforce reaches nothing real before it is judged. Raises
        OSError.
        """
        return rules.mode == "enforce" and self.has_overlay and not self.explain_unavailable(call)

    def resolve_containment(self, call: ToolCall, decision: Decision) -> "ContainmentPlan":
        """Return the plan for a call: contained if the agent accepts the launcher, else compared afterwards.

        A command that the launcher cannot take is refused, or agents would use the gap. A command that the person's own
        rules deny is refused too: the agent would compare the rules with the launcher's words.
        """
        if decision.effect != "contain":
            return ContainmentPlan(decision)

        # 1 Only shell commands can be contained, and only if the agent accepts another command.
        if any(f.verdict == "contain" and f.rule != CONTAIN_RULE for f in decision.findings):
            why = "a hook wants this call contained, and only commands of a shell can be"
            return ContainmentPlan(refuse_uncontainable(decision, why))
        root = str(self.context.workspace.root)
        if call.governing_root not in ("", root):
            return ContainmentPlan(replace(decision, effect="allow"), "another workspace governs this call")
        if why := self.explain_unavailable(call):
            return ContainmentPlan(replace(decision, effect="allow"), why)

        # 2 The launcher must be able to take the command.
        line, is_needed = self.format_launcher_line(call, "0" * 16), is_containment_needed(decision)
        as_written = ContainmentPlan(replace(decision, effect="allow"), "its files are in its text")
        if "\0" in line or len(line.encode("utf-8", "surrogateescape")) > COMMAND_BYTES.value:
            why = f"a contained command has at most {COMMAND_BYTES.value} bytes: put it into a file, and run that"
            return ContainmentPlan(refuse_uncontainable(decision, why)) if is_needed else as_written

        # 3 The person's own rules decide about the command as written. Their readers are loaded only here.
        from remit.gate.containment.agent_permissions import evaluate_permission

        permission = evaluate_permission(call, line, self.context.workspace.root, self.context.environment)
        if not is_needed and is_decided_otherwise(call, permission):
            return as_written
        if permission.effect == "deny":
            return ContainmentPlan(refuse_uncontainable(decision, f"{permission.reason} denies this command"))
        if permission.effect == "as written":
            why = f"{call.agent} asks its person by the command's own words ({permission.reason} decides)"
            if is_needed and self.stands_elsewhere(call):
                return ContainmentPlan(ask_about_uncontainable(decision, why))
            return ContainmentPlan(replace(decision, effect="allow"), why)
        return ContainmentPlan(decision, permission=permission)

    def explain_unavailable(self, call: ToolCall) -> str:
        if self.in_process:
            pass
        elif not can_rewrite(call) or replace_command(call, "") is None:
            return f"{call.agent} takes no other command from its hook"
        elif has_sandbox(call.agent) and not is_codex_unsandboxed(call.transcript):
            return f"{call.agent} runs it in a sandbox of its own, in which no other works"
        return ""

    def stands_elsewhere(self, call: ToolCall) -> bool:
        root = self.context.workspace.root
        folders = (call.cwd, call.given_folder or call.cwd)
        return call.governing_root == str(root) and not all(Path(f).resolve().is_relative_to(root) for f in folders)

    def has_floor(self, call: ToolCall) -> bool:
        """Return True if the floor of Remit's own agent holds here. In a plan's attempt its jail is the floor."""
        is_own = call.agent == OWN_AGENT and self.context.environment.has_floor
        return is_own and not self.context.workspace.is_assigned

    def explain_uncontained(self, call: ToolCall, rules: Rules, *, available: bool) -> str:
        """Return the reason why a command in need of containment cannot be contained: a command of Remit's own agent,
        and in enforce a command outside of the workspace, without a comparison of changes. "" if containment is
        possible, or not needed.
        """
        is_bound = self.has_floor(call) or (rules.mode == "enforce" and self.stands_elsewhere(call))
        if call.command is None or not is_bound:
            return ""
        return self.explain_missing(call, rules, available=available)

    def explain_missing(self, call: ToolCall, rules: Rules, *, available: bool) -> str:
        if available:
            return self.explain_unavailable(call)
        is_off = rules.config.containment.rewrite == "off"
        return "containment is switched off in remit.toml" if is_off else "nothing on this machine can contain it"

    @property
    def has_overlay(self) -> bool:
        """Return True if no effect reaches the real tree before judgement; no state has to be saved beforehand."""
        return kind_for_workspace(self.containment, self.context.workspace) == "overlay"

    def prepare_staged_call(self, call: ToolCall, facts: Facts, decision: Decision, rules: Rules) -> PendingCall:
        """Return the pending call of a staged command, without a baseline. Raises the errors in RECORDING_ERRORS.

        The workspace is observed once if no baseline exists, in case the command runs bare after all.
        """
        state = self.context.state
        if baseline_head(state) is None and not state.list_open_calls():
            ChangesBetweenCalls(self.context).record_unattributed_changes(
                "before a command", self.context.observe(), call.session
            )
        return PendingCall(
            intent_id=facts.session.intent_id,
            verdict="contain",
            mode=decision.mode,
            rules=tuple(f.rule for f in decision.findings),
            judged=(),
            whole=False,
            head=None,
            before={},
            intent_sha256=rules.document.find_version(facts.session.intent_id) if rules.document else "",
            agent=call.agent,
            effect=call.effect,
            transcript=call.transcript,
            owned_scope=scope_at_decision(facts, decision),
        )

    def rewrite_answer(self, answer: Answer, call: ToolCall, facts: Facts, permission: Permission) -> Answer:
        """Return the answer with the launcher's command and the verdict of the person's rules. Raises StateError."""
        environment = self.context.environment
        _, command = split_entered_folder(call, self.context.workspace)
        ticket = Tickets(self.context.state).issue_ticket(
            call, command, facts.session.intent_id, str(environment.temporary), environment.clock.now()
        )
        arguments = replace_command(call, self.format_launcher_line(call, ticket.token))
        if arguments is None:
            raise AssertionError("only the command of a shell tool is carried out contained")
        # The text with a question to a person, or with a yes, shows the command as the agent wrote it.
        shown = sanitise_line(call.command or "", MAX_SHOWN_CHARS)
        if permission.effect == "allow":
            reason = f"{permission.reason} allows `{shown}`; Remit runs it contained"
        elif permission.effect == "ask":
            why = f"{permission.reason} asks about it" if permission.rule is not None else UNRULED_REASON
            reason = f"`{shown}` needs a person's yes: {why}. Remit runs it contained."
        else:
            return replace(answer, arguments=arguments)
        return replace(answer, arguments=arguments, permission=permission.effect, reason=reason)

    def unwrap_returned_call(self, call: ToolCall) -> ToolCall:
        """Return a completed call with the agent's original command."""
        made = unwrap_call(call, self.launcher_start)
        if made is call:
            return call
        try:
            _, pending = self.context.state.find_pending_call(
                made.session, made.call_id, made.tool, made.arguments_sha256
            )
        except StateError:
            return call
        return made if pending is not None and pending.verdict == "contain" else call

    def report_missed_launcher(self, call: ToolCall) -> str:
        """Return the message about a completed call whose launcher never ran: the agent may have run the command bare.

        Its changes are then unattributed. A background call may return before the command begins.
        """
        if call.command is None or any(call.arguments.get(key) for key in BACKGROUND_ARGUMENTS):
            return ""
        tickets = Tickets(self.context.state)
        _, command = split_entered_folder(call, self.context.workspace)
        unused = (t for t in tickets.list_tickets() if not t.folder and t.is_for_call(call, command))
        left = next(unused, None)
        if left is None:
            return ""
        tickets.delete_ticket(left.token)
        add_session_with_commands(self.context.state, call.session.session_id)
        ChangesBetweenCalls(self.context).record_unattributed_changes(
            "after a command", self.context.observe(), call.session
        )
        return (
            f"Remit: this command was to run contained, and did not: {call.agent} ran it as it was, or not at all. "
            "What it changed is recorded as of unknown origin. Tell the person."
        )

    def format_launcher_line(self, call: ToolCall, token: str) -> str:
        first, rest = split_entered_folder(call, self.context.workspace)
        words = shlex.join(["exec", "--session", call.session.session_id, "--call", token])
        return f"{first}{self.launcher_start} {words} -- {SHELL} -c {shlex.quote(rest)}"

    @property
    def launcher_start(self) -> str:
        client, can_launch = self.context.environment.home / CLIENT_PATH, False
        with suppress(OSError):
            can_launch = client.with_name("hook.conf").read_bytes().endswith(b"\nexec\n") and os.access(client, os.X_OK)
        return shlex.join((str(client),) if can_launch else (sys.executable, *PYTHON_WORDS))


def is_decided_otherwise(call: ToolCall, permission: Permission) -> bool:
    """Return True if the agent's own rules may decide otherwise about a command as written than about the launcher's.

    In `acceptEdits` Claude Code runs `sed -i` on files of its folder without a question. Source: its page on permission
    modes, read 2026-11.
    """
    unruled = permission.effect == "ask" and permission.rule is None
    return permission.effect == "deny" or (unruled and call.permission_mode == "acceptEdits")


def split_entered_folder(call: ToolCall, workspace: Workspace) -> tuple[str, str]:
    command = call.command or ""
    found = ENTERED_FOLDER.match(command)
    if found is None:
        return "", command
    folder = Path(os.path.join(call.cwd, found[1].strip("'")))  # noqa: PTH118
    own = locate_workspace(folder) if folder.is_dir() else None
    if own is None or own.root != workspace.root:
        return "", command
    return command[: found.end()], command[found.end() :]


def find_token(command: str) -> str:
    found = LAUNCHER_LINE.search(command)
    return found["token"] if found else ""


def unwrap_call(call: ToolCall, start: str) -> ToolCall:
    first, begun, rest = (call.command or "").partition(start)
    found = LAUNCHER_LINE.fullmatch(rest) if begun and (not first or ENTERED_FOLDER.match(f"{first}x")) else None
    if found is None:
        return call
    try:
        words = shlex.split(found["text"])
    except ValueError:
        return call
    arguments = replace_command(call, first + words[0]) if len(words) == 1 else None
    return call if arguments is None else replace_arguments(call, arguments)


MODE_ABOVE_FLOOR: dict[Mode, str] = {
    "observe": "nothing else is refused",
    "warn": "what is outside an intent's scope is told, nothing else refused",
    "enforce": "what is outside an intent's scope is refused",
}


def describe_floor(context: WorkspaceContext) -> str:
    """Return what holds for a run of Remit's own agent, in one line for its person."""
    mode = context.read_mode()
    above = f"{mode}: {MODE_ABOVE_FLOOR[mode]}"
    if context.workspace.is_assigned:
        return f"in the jail of its attempt; {above}"
    if not context.environment.has_floor:
        return f"WITHOUT FLOOR, as you asked: nothing is contained, files anywhere may change; {above}"
    rewriter, is_off = CommandRewriter(context, in_process=True), context.rules.config.containment.rewrite == "off"
    if is_off or rewriter.containment.way not in CONFINING_WAYS:
        why = "switched off in remit.toml" if is_off else "nothing here can contain it"
        return f"NOT contained ({why}): commands whose text does not tell what they do ask, outside asks; {above}"
    places = f"{context.workspace.root} and {context.environment.temporary}"
    return f"contained to {places}; outside asks; {above}"


def ask_about_uncontainable(decision: Decision, why: str) -> Decision:
    asked = ask_about_unclear(tuple(f for f in decision.findings if f.verdict == "contain"), why)
    others = tuple(f for f in decision.findings if f.verdict != "contain")
    return replace(decision, effect="deny", verdict="ask", findings=(*asked, *others))


def refuse_uncontainable(decision: Decision, why: str) -> Decision:
    finding = Finding(rule=CONTAIN_RULE, code="COMMAND_BLOCKED", message=f"{why}.")
    left = tuple(f for f in decision.findings if f.verdict != "contain")
    return replace(decision, effect="deny", verdict="deny", findings=(finding, *left))


def record_refused_writes(context: WorkspaceContext, call: ToolCall) -> str:
    """Record that the sandbox refused writes of a command, and return the message for the model.

    Raises the errors in RECORDING_ERRORS.
    """
    rewriter = CommandRewriter(context)
    facts = gather_facts(context, replace(call, command=None, effect="write"), context.rules).facts
    words = OVERLAY_REFUSAL
    if not rewriter.has_overlay:
        scope = ", ".join(facts.active.owned_scope[:MAX_PATTERNS]) if facts.active else "nothing, without an intent"
        repair = find_repair_command(rewriter.containment)
        person = f" The person can run `{repair}`: then each write is judged by itself." if repair else ""
        words = BIND_REFUSAL.format(scope=scope) + person
    finding = Finding(rule=CONTAIN_RULE, code="COMMAND_BLOCKED", message=words)
    decision = Decision("deny", "deny", "destructive", facts.mode, (finding,))
    record_denial(context.recorder, call, facts, decision)
    return f"Remit [COMMAND_BLOCKED]: {words}"
