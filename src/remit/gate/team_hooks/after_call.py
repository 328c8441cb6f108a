"""Hooks after a call. The call is finished and recorded: no hook turns it into a failure."""

from remit.core.call import Outcome, ToolCall
from remit.core.record import Body
from remit.gate.answer import Attempts, join_lines
from remit.gate.context import WorkspaceContext
from remit.gate.gather import gather_facts
from remit.gate.rules.trust import trusted_hooks
from remit.gate.team_hooks.before_call import RepositoryHooks
from remit.gate.team_hooks.run_command import clean_text


class AfterHooks:
    """Hooks after one call, in one workspace."""

    def __init__(self, site: WorkspaceContext) -> None:
        self.site = site

    def run_after_hooks(self, call: ToolCall, outcome: Outcome, changed: tuple[str, ...]) -> str:
        """Return the messages for the model, with the names of failed hooks."""
        tries = Attempts()
        words, troubles = self.call_listeners(call, outcome)
        more, others = tries.attempt(lambda: self.run_repository_hooks(call, outcome, changed), ([], []))
        tries.attempt(lambda: self.record_failures(call, [*troubles, *others]), None)
        return join_lines(*words, *more, tries.failure_notice)

    def call_listeners(self, call: ToolCall, outcome: Outcome) -> tuple[list[str], list[str]]:
        """Return the messages of registered listeners, and a description of each failed listener."""
        words: list[str] = []
        troubles: list[str] = []
        for name, listener in list(self.site.hooks.listeners.items()):
            try:
                words.append(clean_text(listener(call, outcome) or ""))
            except (Exception, SystemExit) as error:  # noqa: BLE001  a hook's failure is not the call's
                troubles.append(f"{name}: {type(error).__name__}: {error}"[:500])
                words.append(f"Hook {name} failed ({type(error).__name__}).")
        return words, troubles

    def run_repository_hooks(
        self, call: ToolCall, outcome: Outcome, changed: tuple[str, ...]
    ) -> tuple[list[str], list[str]]:
        """Return the messages of the repository's hooks, and a description of each failed hook."""
        rules = self.site.last_rules or self.site.rules
        hooks = tuple(named for named in trusted_hooks(rules, self.site.recorder) if named.hook.on == "after")
        if not hooks:
            return [], []
        site = self.site
        facts = gather_facts(call, site.workspace, rules, site.state, site.contents, site.environment).facts
        return RepositoryHooks(hooks, site.workspace, site.environment).call_after_hooks(call, facts, outcome, changed)

    def record_failures(self, call: ToolCall, troubles: list[str]) -> None:
        bodies = [
            Body(
                event="check_failed",
                intent_id=self.site.state.active_session(call.session).intent_id,
                session_id=call.session.session_id,
                detail={"check": trouble.partition(": ")[0], "exception": trouble.partition(": ")[2][:500]},
            )
            for trouble in troubles
        ]
        if bodies:
            self.site.recorder.append_or_spool([self.site.recorder.make_record(body, call.agent) for body in bodies])
