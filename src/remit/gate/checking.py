"""What is looked at after a call changed files: what the team's commands say of them, and the intent's constraints."""

from remit.core.call import ToolCall
from remit.gate.answer import Attempts, joined
from remit.gate.site import Site


def checked(site: Site, call: ToolCall, changed: tuple[str, ...]) -> str:
    """What the model should know. The call is done and recorded: nothing here turns it into a failure."""
    tries = Attempts()
    verified = tries.made(lambda: verified_on_write(site, call, changed), "") if changed else ""
    kept = tries.made(lambda: held_to_constraints(site, call, changed), "") if changed else ""
    return joined(verified, kept, tries.said)


def verified_on_write(site: Site, call: ToolCall, changed: tuple[str, ...]) -> str:
    """What the commands of `[verify] on_write` say."""
    rules = site.rules or site.governing
    if not rules.config.verify.on_write:
        return ""
    from remit.gate.on_write import AfterWrites  # for those who have such commands

    return AfterWrites(site).ran(call, changed)


def held_to_constraints(site: Site, call: ToolCall, changed: tuple[str, ...]) -> str:
    """Which constraints of its intent the call left broken."""
    rules = site.rules or site.governing
    intent = rules.intents.get(site.state.active(call.session).intent_id)
    if intent is None or not intent.rules:
        return ""
    from remit.gate.keeping_to import KeepingTo  # all kinds of constraints, for those who have one

    return KeepingTo(site).told(call, intent, rules.mode, changed)
