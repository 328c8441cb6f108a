"""Agents' own shell calls, run contained: the hook gives the agent another command, which is the launcher's.

The launcher (`hook exec`, or `remit exec`) runs the agent's command over the workspace, and what may not stay is
dropped. Where an agent takes no other command, its effects are compared afterwards, as those of any other call.
"""

import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from remit.adapters import can_rewrite, rewritten, sandboxes, with_command
from remit.core.call import ToolCall
from remit.core.decision import Decision, Finding
from remit.core.facts import Facts, Waiver
from remit.core.permission import Permission
from remit.core.text import shown
from remit.gate.answer import Answer
from remit.gate.between import Between, put_loose
from remit.gate.companions import scope_then
from remit.gate.contained_tickets import Tickets
from remit.gate.governing import Governing
from remit.gate.observed import observed_head
from remit.gate.site import Site
from remit.gate.state import PendingCall
from remit.gate.state_file import StateError
from remit.policy.classify import classify
from remit.policy.commands.background import IN_BACKGROUND, outlives
from remit.policy.contain import RULE
from remit.workspace.place import Workspace, locate
from remit.workspace.sandbox.choosing import Containment, containment, way_here
from remit.workspace.sandbox.others import is_unbound

CLIENT = ".local/share/remit/bin/hook"
"""Below HOME; `wiring.client` puts it there."""

PYTHON = ("-I", "-c", "from remit.cli import main; main()")

SHELL = "bash" if shutil.which("bash") else "sh"
"""The shell that agents run commands with. No variable may tell it: Claude Code has a person check such a command."""

LONGEST = 120_000
"""Bytes of the launcher's command line: Linux takes no argument of 128 KiB (MAX_ARG_STRLEN, execve(2))."""

MAX_SHOWN = 2000
"""Characters of a command in a question to a person."""

STOPPING = frozenset({"overlay", "bind"})
"""The ways that hold back all that lies out of scope while the command runs."""

ENTERS = re.compile(r"""\s*cd[ \t]+([\w./@%+:][\w./@%+:-]*|'[^']*')[ \t]*&&\s*(?=\S)""")
"""Entering a folder first. It stays outside: some agents go on in the folder that their shell was left in."""

WRAPPED = re.compile(rf" exec --session \S.*? --call (?P<token>[0-9a-f]{{16}}) -- {SHELL} -c (?P<text>.*)", re.DOTALL)


class Found:
    """What works on this machine, looked up once in a process."""

    by_home: ClassVar[dict[Path, Containment]] = {}


class Carried(Struct, frozen=True):
    """How a call is carried out. `uncontained` says why it is not contained, where it should be. `permission` is what
    the person's own rules say of one that is.
    """

    decision: Decision
    uncontained: str = ""
    permission: Permission = Permission("agent")


class ContainedCalls:
    """Decides how one call of an agent runs contained, and makes it so."""

    def __init__(self, site: Site) -> None:
        self.site = site

    @property
    def how(self) -> Containment:
        """The containment that works here. Raises OSError."""
        around = self.site.environment
        found = Found.by_home.get(around.home)
        if found is None:
            found = Found.by_home[around.home] = containment(around.home, around.temporary)
        return found

    def available(self, call: ToolCall, rules: Governing, waived: frozenset[Waiver]) -> bool:
        """Whether this command could be contained. One that a person said yes to for what it writes is not."""
        if call.command is None or rules.mode != "enforce" or rules.config.containment.rewrite == "off":
            return False
        if any(code != "USER_REJECTED" for code, _ in waived) or classify(call) != "destructive":
            return False
        try:
            return self.how.way in STOPPING
        except OSError:
            return False

    def why_bare(self, call: ToolCall, rules: Governing, *, available: bool) -> str:
        """Why this command, which leaves something running, would run as it is, in enforce; empty where it can be
        contained. Raises OSError.
        """
        if call.command is None or rules.mode != "enforce" or classify(call) != "destructive":
            return ""
        if not outlives(call.command, call.arguments):
            return ""
        if available:
            return self.why_not(call)
        off = rules.config.containment.rewrite == "off"
        return "that is switched off in remit.toml" if off else "nothing on this machine can contain it"

    def carried(self, call: ToolCall, decision: Decision) -> "Carried":
        """What is done: contained where the agent lets us, compared afterwards where it does not, with why not.

        What cannot be given to the launcher is refused: whoever wants to get round it would only have to try. So is
        what the person's own rules deny: the agent compares them with the launcher's words.
        """
        if decision.effect != "contain":
            return Carried(decision)
        if any(f.verdict == "contain" and f.rule != RULE for f in decision.findings):
            return Carried(refused(decision, "a hook wants this call contained, and only commands of a shell can be"))
        why = self.why_not(call)
        if why:
            return Carried(replace(decision, effect="allow"), why)
        if "\0" in (call.command or "") or len(self.line(call, "0" * 16).encode("utf-8", "surrogateescape")) > LONGEST:
            why = f"a command that has to run contained has at most {LONGEST} bytes: put it into a file, and run that"
            return Carried(refused(decision, why))
        # For start-up speed: readers of three forms of rules, and only a contained command needs them.
        from remit.gate.own_rules import evaluate_permission

        own = evaluate_permission(call, self.line(call, "0" * 16), self.site.workspace.root, self.site.environment)
        if own.effect == "deny":
            return Carried(refused(decision, f"{own.reason} denies this command"))
        if own.effect == "as written":
            why = f"{call.agent} asks its person by the command's own words ({own.reason} decides)"
            return Carried(replace(decision, effect="allow"), why)
        return Carried(decision, permission=own)

    def why_not(self, call: ToolCall) -> str:
        """Why the agent cannot be made to run the launcher; empty where it can."""
        if not can_rewrite(call) or with_command(call, "") is None:
            return f"{call.agent} takes no other command from its hook"
        if sandboxes(call.agent) and not is_unbound(call.transcript):
            return f"{call.agent} runs it in a sandbox of its own, in which no other works"
        if not Path(call.cwd).resolve().is_relative_to(self.site.workspace.root):
            return "it runs outside this workspace"
        return ""

    @property
    def staged(self) -> bool:
        """Whether nothing of a contained command happens before it is judged: then nothing has to be kept before it."""
        return way_here(self.how, self.site.workspace) == "overlay"

    def begun(self, call: ToolCall, facts: Facts, decision: Decision, rules: Governing) -> PendingCall:
        """A staged call as it is remembered: by its hooks nothing has to be compared."""
        return PendingCall(
            intent_id=facts.session.intent_id,
            verdict=decision.verdict,
            mode=decision.mode,
            rules=tuple(f.rule for f in decision.findings),
            judged=(),
            whole=False,
            head=None,
            before={},
            intent_sha256=rules.document.sha256 if rules.document else "",
            agent=call.agent,
            effect=call.effect,
            transcript=call.transcript,
            owned_scope=scope_then(facts, decision),
        )

    def remember(self, call: ToolCall, facts: Facts, decision: Decision, rules: Governing) -> None:
        """A staged call is under way. Raises what CannotRecord names.

        Nothing is looked at before it; but what the workspace was has to be known once, should it run bare after all.
        """
        state = self.site.state
        if observed_head(state) is None and not state.open_calls():
            Between(self.site).noticed_everywhere("before a command", self.site.observe(), call.session)
        pending, now = self.begun(call, facts, decision, rules), self.site.environment.clock()
        with state.together():
            state.put_call(call.session, call.call_id, call.tool, call.arguments_sha256, pending, now)
            if call.transcript:
                state.put_transcript(call.session, call.agent, call.transcript)

    def answered(self, answer: Answer, call: ToolCall, facts: Facts, own: Permission) -> Answer:
        """The answer with the arguments that make the agent run the launcher, with leave to run this command, and with
        what the person's own rules say of it.

        Raises StateError.
        """
        around = self.site.environment
        ticket = Tickets(self.site.state).issued(
            call, entered(call, self.site.workspace)[1], facts.session.intent_id, str(around.temporary), around.clock()
        )
        found = with_command(call, self.line(call, ticket.token))
        if found is None:
            raise AssertionError("only the command of a shell tool is carried out contained")
        if own.effect not in ("allow", "ask"):
            return replace(answer, arguments=found)
        return replace(answer, arguments=found, permission=own.effect, reason=permission_words(call, own))

    def returned(self, call: ToolCall) -> ToolCall:
        """A call that came back, as the agent made it."""
        made = unwrapped(call, self.start)
        if made is call:
            return call
        try:
            _, pending = self.site.state.peek_call(made.session, made.call_id, made.tool, made.arguments_sha256)
        except StateError:
            return call
        return made if pending is not None and pending.verdict == "contain" else call

    def missed(self, call: ToolCall) -> str:
        """What is told of a call that came back though the launcher never ran: its agent may have run it bare.

        What it changed is nobody's for certain then. A call in the background may come back before it begins.
        """
        if call.command is None or any(call.arguments.get(key) for key in IN_BACKGROUND):
            return ""
        tickets = Tickets(self.site.state)
        left = next(
            (t for t in tickets.all() if not t.folder and t.is_for(call, entered(call, self.site.workspace)[1])), None
        )
        if left is None:
            return ""
        tickets.forget(left.token)
        put_loose(self.site.state, call.session.session_id)
        Between(self.site).noticed_everywhere("after a command", self.site.observe(), call.session)
        return (
            f"Remit: this command was to run contained, and did not: {call.agent} ran it as it was, or not at all. "
            "What it changed is recorded as of unknown origin. Tell the person."
        )

    def line(self, call: ToolCall, token: str) -> str:
        """The launcher's command line, for any shell that an agent uses."""
        first, rest = entered(call, self.site.workspace)
        words = shlex.join(["exec", "--session", call.session.session_id, "--call", token])
        return f"{first}{self.start} {words} -- {SHELL} -c {shlex.quote(rest)}"

    @property
    def start(self) -> str:
        """The words that start the launcher: the thin client, or where there is none Remit itself."""
        client = self.site.environment.home / CLIENT
        return shlex.join((str(client),) if launches(client) else (sys.executable, *PYTHON))


def permission_words(call: ToolCall, own: Permission) -> str:
    """Return what the person is shown with a question, and the agent notes of a yes: the command as it was written."""
    command = shown(call.command or "", MAX_SHOWN)
    if own.effect == "allow":
        return f"{own.reason} allows `{command}`; Remit runs it contained"
    why = (
        f"{own.reason} asks about it"
        if own.rule is not None
        else "no permission rule allows it yet; /permissions adds one"
    )
    return f"`{command}` needs a person's yes: {why}. Remit runs it contained."


def launches(client: Path) -> bool:
    """Whether the client is there, and one that can run commands: one of an older Remit only speaks for hooks."""
    try:
        return client.with_name("hook.conf").read_bytes().endswith(b"\nexec\n") and os.access(client, os.X_OK)
    except OSError:
        return False


def entered(call: ToolCall, workspace: Workspace) -> tuple[str, str]:
    """The command's entering of a folder of the workspace, and all that comes after it.

    A command that enters another place goes to the launcher whole: there, none has leave to run.
    """
    command = call.command or ""
    found = ENTERS.match(command)
    if found is None:
        return "", command
    folder = Path(os.path.join(call.cwd, found[1].strip("'")))  # noqa: PTH118
    own = locate(folder) if folder.is_dir() else None
    if own is None or own.root != workspace.root:
        return "", command
    return command[: found.end()], command[found.end() :]


def token_in(command: str) -> str:
    """The ticket that the launcher's words name; empty for any other command."""
    found = WRAPPED.search(command)
    return found["token"] if found else ""


def unwrapped(call: ToolCall, start: str) -> ToolCall:
    """The call without the words of the launcher, which `start` begins, around its command."""
    first, begun, rest = (call.command or "").partition(start)
    found = WRAPPED.fullmatch(rest) if begun and (not first or ENTERS.match(f"{first}x")) else None
    if found is None:
        return call
    try:
        words = shlex.split(found["text"])
    except ValueError:
        return call
    arguments = with_command(call, first + words[0]) if len(words) == 1 else None
    return call if arguments is None else rewritten(call, arguments)


def refused(decision: Decision, why: str) -> Decision:
    """The decision where containing is due and cannot be: nothing may run then."""
    finding = Finding(rule=RULE, code="COMMAND_BLOCKED", message=f"{why}.")
    left = tuple(f for f in decision.findings if f.verdict != "contain")
    return replace(decision, effect="deny", verdict="deny", findings=(finding, *left))
