"""What the hooks after a call have to say. The call is done and recorded: nothing here turns it into a failure."""

from remit.core.call import Outcome, ToolCall
from remit.core.record import Body
from remit.gate.answer import Attempts, joined
from remit.gate.gather import gather
from remit.gate.hook_commands import spoken
from remit.gate.repository_hooks import RepositoryHooks
from remit.gate.site import Site
from remit.gate.trusting import trusted_hooks


class Hearing:
    """The hooks after one call, in one workspace."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def heard(self, call: ToolCall, outcome: Outcome, changed: tuple[str, ...]) -> str:
        """What the model should know from the hooks, and which of them failed."""
        tries = Attempts()
        words, troubles = self.listeners(call, outcome)
        more, others = tries.made(lambda: self.commands(call, outcome, changed), ([], []))
        tries.made(lambda: self.record(call, [*troubles, *others]), None)
        return joined(*words, *more, tries.said)

    def listeners(self, call: ToolCall, outcome: Outcome) -> tuple[list[str], list[str]]:
        """What the registered ones return, and how some broke."""
        words: list[str] = []
        troubles: list[str] = []
        for name, listener in list(self.site.hooks.listeners.items()):
            try:
                words.append(spoken(listener(call, outcome) or ""))
            except (Exception, SystemExit) as error:  # noqa: BLE001  a hook's failure is not the call's
                troubles.append(f"{name}: {type(error).__name__}: {error}"[:500])
                words.append(f"Hook {name} failed ({type(error).__name__}).")
        return words, troubles

    def commands(self, call: ToolCall, outcome: Outcome, changed: tuple[str, ...]) -> tuple[list[str], list[str]]:
        """What the repository's hooks say, and how some failed."""
        rules = self.site.rules or self.site.governing
        hooks = tuple(named for named in trusted_hooks(rules, self.site.recorder) if named.hook.on == "after")
        if not hooks:
            return [], []
        site = self.site
        facts = gather(call, site.workspace, rules, site.state, site.store, site.environment).facts
        return RepositoryHooks(hooks, site.workspace, site.environment).after(call, facts, outcome, changed)

    def record(self, call: ToolCall, troubles: list[str]) -> None:
        """Write down which hooks failed."""
        bodies = [
            Body(
                event="check_failed",
                intent_id=self.site.state.active(call.session).intent_id,
                session_id=call.session.session_id,
                detail={"check": trouble.partition(": ")[0], "exception": trouble.partition(": ")[2][:500]},
            )
            for trouble in troubles
        ]
        if bodies:
            self.site.recorder.append_or_spool([self.site.recorder.record(body, call.agent) for body in bodies])
