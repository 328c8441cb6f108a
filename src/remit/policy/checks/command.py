"""Commands that an agent may not run by itself: dangerous ones, and those for people."""

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.decision import Finding
from remit.core.display_text import sanitise_line
from remit.core.facts import Facts
from remit.policy.classify import is_for_agents
from remit.policy.commands import CommandAnalysis, analyse
from remit.policy.commands.sent_commits import is_fetching


def check(call: ToolCall, facts: Facts) -> Finding | None:
    """Find COMMAND_BLOCKED for Remit's commands for people, for dangerous commands, and for commits not judged yet.

    A person may approve a dangerous command, unless it changes what governs agents. A destructive call that is
    literally `remit …` is a command for people: the others are meta.
    """
    if call.command is None:
        return None
    analysis = analyse(call.command)
    if analysis.remit_words is not None:
        return deny_command_for_people(call.command, analysis.remit_words)
    if analysis.outcome == "dangerous":
        return find_danger(call.command, analysis)
    if facts.unjudged:
        return deny_unjudged_commits(call.command, facts.unjudged)
    if facts.containable and analysis.outcome == "unknown" and not analysis.git_verbs and is_fetching(call.command):
        return deny_fetch(call.command)
    return None


def deny_fetch(command: str) -> Finding:
    """Refuse a fetch whose commits could not be told from those of another program in the same command."""
    why = (
        "`git fetch` and `git pull` bring in others' work, which is told from your own only where they fetch from a "
        "remote by its name, and no other program runs in the same command. Run `git pull` by itself, then the rest."
    )
    return make_finding(command, why)


def deny_unjudged_commits(command: str, names: tuple[str, ...]) -> Finding:
    """Refuse commits that were not judged and would leave this machine, or get a working tree of their own."""
    listed = ", ".join(f"`{sanitise_line(name, 80)}`" for name in names[:3])
    why = (
        f"{listed} names a commit that no branch or tag leads to, and only what is on one is sent or checked out. "
        "Commit your work on a branch, and name that branch."
    )
    return make_finding(command, why)


def deny_command_for_people(command: str, words: tuple[str, ...]) -> Finding:
    """Refuse a Remit command for people, and a program of that name at another path."""
    shown = sanitise_line(" ".join(("remit", *words)))
    why = (
        "names a program by its path, which anybody may have put there. Run it as plain `remit …`, or use the MCP tools"
        if is_for_agents(words)
        else "is for a person at a terminal. Say in your answer what you need and why"
    )
    return make_finding(command, f"`{shown}` {why}.")


def find_danger(command: str, analysis: CommandAnalysis) -> Finding:
    """Return the finding of a dangerous command: a question, or a denial if no approval helps."""
    why = "; ".join(analysis.reasons)
    advice = (
        "No agent may do that. Say in your answer what should change and why: the person changes it."
        if analysis.is_forbidden
        else "It needs a person's yes: say in your answer what you want and why, or take a way that can be undone."
    )
    finding = make_finding(command, f"{sanitise_line(why)}. {advice}")
    return replace(
        finding,
        verdict="deny" if analysis.is_forbidden else "ask",
        context={**finding.context, "reasons": list(analysis.reasons), "lasting": analysis.is_irreversible},
    )


def make_finding(command: str, message: str) -> Finding:
    return Finding(rule="command", code="COMMAND_BLOCKED", message=message, context={"command": command[:4096]})
