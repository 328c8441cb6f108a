"""Commands that an agent may not run by itself: dangerous ones, and those for people."""

from remit.core.call import ToolCall
from remit.core.decision import Facts, Finding, Verdict
from remit.core.untrusted_input import sanitise_line
from remit.policy.commands import analyse
from remit.policy.commands.dangers import ALONE, find_mixed_act, is_fetching, is_for_agents


def check(call: ToolCall, facts: Facts) -> Finding | None:
    """Find COMMAND_BLOCKED for Remit's commands for people, for dangerous commands, and for commits not judged yet.

    A person may approve a dangerous command, unless it changes what governs agents. A destructive call that is
    literally `remit …` is a command for people: the others are meta.
    """
    if call.command is None:
        return None
    analysis = analyse(call.command)
    verdict: Verdict = "deny"
    context: dict[str, object] = {"command": call.command[:4096]}
    if analysis.remit_words is not None:
        shown = sanitise_line(" ".join(("remit", *analysis.remit_words)))
        # A program of that name may lie at another path.
        why = (
            "names a program by its path, which anybody may have put there. Run it as plain `remit …`, or use the MCP "
            "tools"
            if is_for_agents(analysis.remit_words)
            else "is for a person at a terminal. Say in your answer what you need and why"
        )
        message = f"`{shown}` {why}."
    elif act := find_mixed_act(call.command):
        message = f"`{sanitise_line(act, 120)}` acts for this session, which only a command of its own can: {ALONE}."
    elif analysis.outcome == "dangerous" and not facts.restorable:
        advice = (
            "No agent may do that. Say in your answer what should change and why: the person changes it."
            if analysis.is_forbidden
            else "It needs a person's yes: say in your answer what you want and why, or take a way that can be undone."
        )
        message = f"{sanitise_line('; '.join(analysis.reasons))}. {advice}"
        verdict = "deny" if analysis.is_forbidden else "ask"
        context |= {"reasons": list(analysis.reasons), "lasting": analysis.is_irreversible}
    elif facts.unjudged:
        # They would leave this machine, or get a working tree of their own.
        listed = ", ".join(f"`{sanitise_line(name, 80)}`" for name in facts.unjudged[:3])
        message = (
            f"{listed} names a commit that no branch or tag leads to, and only what is on one is sent or checked out. "
            "Commit your work on a branch, and name that branch."
        )
    elif facts.containable and analysis.outcome == "unknown" and not analysis.git_verbs and is_fetching(call.command):
        # The fetched commits could not be told from those of another program in the same command.
        message = (
            "`git fetch` and `git pull` bring in others' work, which is told from your own only where they fetch from "
            "a remote by its name, and no other program runs in the same command. Run `git pull` by itself, then the "
            "rest."
        )
    elif facts.exposed:
        listed = ", ".join(f"`{sanitise_line(command, 80)}`" for command in facts.exposed[:3])
        message = (
            f"{listed} changes git's index or the names of branches, and nothing here contains it. It needs a person's "
            "yes: say in your answer what you want and why, or name files of your scope (`git reset -q src`)."
        )
        verdict = "ask"
    else:
        return None
    return Finding("command", "COMMAND_BLOCKED", message, verdict=verdict, context=context)
