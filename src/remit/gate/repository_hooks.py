"""The hooks that a repository brings and a person trusted: what they say before a call and after it.

A hook can object, ask, add words for the model, or give the call other arguments. It can only tighten: what it leaves
of a call goes through every check again, and where the agent cannot take other arguments the call is refused.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

from msgspec import Struct, json
from msgspec.structs import replace

from remit.adapters import can_rewrite, rewritten
from remit.core.call import Outcome, ToolCall
from remit.core.decision import Finding
from remit.core.facts import Facts
from remit.core.hooks import HookAnswer, Moment, NamedHook
from remit.core.redaction import redact
from remit.core.text import shown
from remit.gate import hook_commands
from remit.gate.environment import Environment
from remit.gate.hook_commands import HookFailed, spoken
from remit.gate.installed import load
from remit.gate.user_hooks import code_of
from remit.workspace.place import Workspace

ALL_S = 120.0
"""All hooks of one call together: an agent runs its tool when its own patience ends."""

REASON_CHARS = 2_000
SHOWN_CHARS = 4_000


class Said(Struct, frozen=True):
    """What the hooks said before a call. `call` is as they left it, `rewriters` those that gave it other arguments."""

    call: ToolCall
    findings: tuple[Finding, ...] = ()
    words: tuple[str, ...] = ()
    rewriters: tuple[str, ...] = ()
    ran: bool = False
    spent_s: float = 0.0


class RepositoryHooks:
    """The trusted hooks of one workspace, for one call."""

    def __init__(self, hooks: tuple[NamedHook, ...], workspace: Workspace, around: Environment) -> None:
        self.hooks = hooks
        self.workspace = workspace
        self.around = around

    def before(self, call: ToolCall, facts: Facts) -> Said:
        """Ask each in turn; each sees the call as the one before it left it."""
        said = Said(call)
        for named in self.meant("before", call, facts, paths_of(facts)):
            said = self.asked(named, said, facts)
        return said

    def again(self, said: Said, facts: Facts) -> Said:
        """Ask once more, about the call with its new arguments. Who gave it some has had its say on them."""
        found = Said(said.call, rewriters=said.rewriters, ran=True, spent_s=said.spent_s)
        for named in self.meant("before", said.call, facts, paths_of(facts)):
            found = self.asked(named, found, facts)
        if found.call != said.call:
            found = replace(found, call=said.call, findings=(*found.findings, quarrel(found.rewriters)))
        return replace(found, rewriters=said.rewriters, words=(*said.words, *found.words))

    def meant(self, on: Moment, call: ToolCall, facts: Facts, paths: tuple[str, ...]) -> list[NamedHook]:
        """The hooks that such a call is for."""
        return [
            named
            for named in self.hooks
            if named.hook.on == on and named.hook.when.covers(facts.mode, call.agent, call.tool, paths)
        ]

    def asked(self, named: NamedHook, said: Said, facts: Facts) -> Said:
        """What was said, and what this hook says."""
        began = time.monotonic()
        try:
            answer = self.answer(named, said.call, facts, ALL_S - said.spent_s)
            found = heeded(named, answer, said, facts)
        except HookFailed as failure:
            found = replace(said, findings=(*said.findings, failed(named, failure)))
        return replace(found, ran=True, spent_s=said.spent_s + time.monotonic() - began)

    def answer(self, named: NamedHook, call: ToolCall, facts: Facts, most_s: float) -> HookAnswer:
        """What one hook answers. Other calls pass meanwhile. Raises HookFailed."""
        with self.around.unlocked():
            if named.hook.entry_point is None:
                document = hook_commands.document_before(call, facts)
                return hook_commands.ask(named, document, self.workspace, self.around, most_s)
            found = called(named, min(named.hook.timeout_s, most_s), call, facts)
        if found is None:
            return HookAnswer("allow")
        if not isinstance(found, Finding):
            raise HookFailed(f"it returned a {type(found).__name__}; expected a Finding or None")
        return HookAnswer(found.verdict, found.message)

    def after(
        self, call: ToolCall, facts: Facts, outcome: Outcome, changed: tuple[str, ...]
    ) -> tuple[list[str], list[str]]:
        """What the hooks after a call have to say to the model, and what went wrong with them."""
        words: list[str] = []
        troubles: list[str] = []
        spent = 0.0
        document = hook_commands.document_after(call, facts, outcome, changed)
        for named in self.meant("after", call, facts, (*paths_of(facts), *changed)):
            began = time.monotonic()
            try:
                found = self.heard(named, document, call, outcome, ALL_S - spent)
                words += [f"Hook {named.name}: {found}"] if found else []
            except HookFailed as failure:
                troubles.append(f"{named.name}: {failure}")
                words.append(f"Hook {named.name} failed: {spoken(str(failure))}")
            spent += time.monotonic() - began
        return words, troubles

    def heard(self, named: NamedHook, document: bytes, call: ToolCall, outcome: Outcome, most_s: float) -> str:
        """What one hook says after a call. Raises HookFailed."""
        with self.around.unlocked():
            if named.hook.entry_point is None:
                return hook_commands.hear(named, document, self.workspace, self.around, most_s)
            found = called(named, min(named.hook.timeout_s, most_s), call, outcome)
        return spoken(found) if isinstance(found, str) else ""


def paths_of(facts: Facts) -> tuple[str, ...]:
    """The paths of the workspace that a call names."""
    return tuple(str(target.path) for target in facts.targets if target.path is not None)


def heeded(named: NamedHook, answer: HookAnswer, said: Said, facts: Facts) -> Said:
    """What was said, and this answer."""
    words = [f"Hook {named.name}: {spoken(answer.context)}"] if answer.context.strip() else []
    if answer.effect != "allow":
        found = Finding(named.name, code_of(answer.effect), objection(named, answer.reason), answer.effect)
        return replace(said, findings=(*said.findings, found), words=(*said.words, *words))
    if answer.arguments is None or answer.arguments == said.call.arguments or named.name in said.rewriters:
        return replace(said, words=(*said.words, *words))
    if facts.mode != "enforce":
        would = f"Hook {named.name} would give this {said.call.tool} call other arguments; only enforce lets it."
        return replace(said, words=(*said.words, *words, would))
    if not can_rewrite(said.call):
        found = Finding(named.name, "HOOK_BLOCKED", instead(named, said.call, answer.arguments))
        return replace(said, findings=(*said.findings, found), words=(*said.words, *words))
    told = f"Hook {named.name} gave this {said.call.tool} call other arguments; it runs with those."
    return replace(
        said,
        call=rewritten(said.call, answer.arguments),
        words=(*said.words, *words, told),
        rewriters=(*said.rewriters, named.name),
    )


def objection(named: NamedHook, reason: str) -> str:
    """A hook's reason, as the model is told it."""
    return shown(redact(reason[:REASON_CHARS]), REASON_CHARS) or f"the hook {named.name} refuses this call"


def instead(named: NamedHook, call: ToolCall, arguments: dict[str, Any]) -> str:
    """The denial that carries what the agent's hook cannot."""
    wanted = shown(redact(json.encode(arguments).decode()[:SHOWN_CHARS]), SHOWN_CHARS)
    return (
        f"The hook {named.name} wants other arguments for this call, and {call.agent} cannot take them from a hook. "
        f"Make this {call.tool} call instead: {wanted}"
    )


def quarrel(rewriters: tuple[str, ...]) -> Finding:
    """The denial of a call over whose arguments two hooks disagree."""
    names = ", ".join(rewriters)
    return Finding(
        rewriters[-1],
        "HOOK_BLOCKED",
        f"the hooks {names} each want other arguments for this call, whatever the others made of it: "
        "tell the person, who has to mend one of them",
    )


def failed(named: NamedHook, failure: HookFailed) -> Finding:
    """A hook that gave no answer: refused, or noted, as its `on_error` says. Either way it is recorded."""
    return Finding(
        named.name,
        "HOOK_BLOCKED",
        f"the hook {named.name} failed ({shown(str(failure))}), and its `on_error` is deny: tell the person",
        named.hook.on_error,
        context={"check": named.name, "exception": str(failure)[:500]},
    )


def called(named: NamedHook, most_s: float, *arguments: object) -> object:
    """What a hook in Python returns, in its time. One that takes longer goes on in its thread, and is not heard."""
    if most_s <= 0:
        raise HookFailed("the hooks before it took all the time there is for one call")
    returned: list[object] = []
    broken: list[str] = []
    work = threading.Thread(target=outcome_of, args=(named, arguments, returned, broken), daemon=True)
    work.start()
    work.join(most_s)
    if broken:
        raise HookFailed(broken[0])
    if not returned:
        raise HookFailed(f"it took longer than {most_s:g} s")
    return returned[0]


def outcome_of(named: NamedHook, arguments: tuple[object, ...], returned: list[object], broken: list[str]) -> None:
    """Call it, in a thread of its own: what it returns, or how it broke."""
    try:
        function: Callable[..., object] = load(named.hook.entry_point or "")
        returned.append(function(*arguments))
    except (Exception, SystemExit) as error:  # noqa: BLE001  any failure of a hook is handled as its `on_error` says
        broken.append(f"{type(error).__name__}: {error}"[:500])
