"""Trailers of commit messages that say an agent helped: written by the project's policy, and found where against it.

`Signed-off-by` certifies that a person may submit the work: it is never written, and never an agent's.
Sources: Linux kernel, Documentation/process/coding-assistants.rst; git-interpret-trailers(1); both read 2026-11.
"""

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from remit.core.config import TrailerStyle
from remit.core.display_text import sanitise_line

TRAILER = re.compile(r"(?P<key>[A-Za-z][A-Za-z0-9-]*)[ \t]*:[ \t]*(?P<value>.*)")
SCISSORS = ">8"
AGENT_DOMAIN = "agents.invalid"
"""No mail ever goes there (RFC 2606), and no hosting site takes it for a person's."""

_OF_AGENTS = re.compile(
    r"(?:noreply@anthropic\.com|cursoragent@cursor\.com|(?:\d+\+)?copilot@users\.noreply\.github\.com"
    r"|[^@]*\[bot\]@.*|.*@" + re.escape(AGENT_DOMAIN) + r")",
    re.IGNORECASE,
)
_AGENTS = (
    r"(?:claude(?: code| opus| sonnet| haiku)|claude-code|codex(?: cli)?|(?:github )?copilot|chatgpt|gemini(?: |-)cli"
    r"|qwen(?: |-)code|cursor(?: |-)?agent|opencode|aider|devin ai|windsurf)"
)
_AGENT_NAME = re.compile(rf"{_AGENTS}\b.*", re.IGNORECASE)
"""Names that no person has: `Claude` alone is one that people have."""

_ADVERT = re.compile(rf"\W*generated (?:with|by) \W*{_AGENTS}\b.*", re.IGNORECASE)
_PERSON = re.compile(r"(?P<name>[^<]*)(?:<(?P<address>[^>]*)>)?.*")

KEY_STYLES: dict[str, TrailerStyle] = {
    "assisted-by": "kernel",
    "generated-by": "apache",
    "co-authored-by": "coauthor",
    "remit-intent": "Remit-Intent",
}


class AgentContribution(Struct, frozen=True):
    """An agent that wrote lines of a commit."""

    agent: str
    version: str | None = None
    model: str | None = None
    intent_id: str | None = None


class TrailerFinding(Struct, frozen=True):
    """A line that should not be there. `code` is SIGNED_OFF_BY_AGENT or TRAILER_AGAINST_POLICY; lines count from 1."""

    code: str
    line: int
    text: str
    message: str


def build_trailers(helped: Iterable[AgentContribution], style: TrailerStyle) -> list[str]:
    """The trailers for a commit that they helped with."""
    lines = [line for one in helped if (line := _format_trailer(one, style))]
    return list(dict.fromkeys(lines))


def _format_trailer(one: AgentContribution, style: TrailerStyle) -> str:
    agent = sanitise_line(one.agent, 80)
    match style:
        case "kernel":
            return f"Assisted-by: {agent}:{sanitise_line(one.model, 80)}" if one.model else f"Assisted-by: {agent}"
        case "apache":
            return (
                f"Generated-by: {agent} {sanitise_line(one.version, 40)}" if one.version else f"Generated-by: {agent}"
            )
        case "coauthor":
            return f"Co-authored-by: {agent} <{re.sub(r'[^A-Za-z0-9.-]', '-', agent)}@{AGENT_DOMAIN}>"
        case "Remit-Intent":
            return f"Remit-Intent: {sanitise_line(one.intent_id, 80)}" if one.intent_id else ""
        case "none":
            return ""


def add_trailers(message: str, trailers: Sequence[str], comment: str = "#") -> str:
    """The message with those of the trailers that it lacks, before what git will cut off: comments, and the patch."""
    lines = message.split("\n")
    end = _find_message_end(lines, comment)
    fresh = [line for line in trailers if line not in lines[:end]]
    if not fresh:
        return message
    start = next((n + 1 for n in range(end - 1, -1, -1) if not lines[n].strip()), 0)
    block = [line for line in lines[start:end] if not line.startswith(comment)]
    continues = start > 0 and bool(block) and all(TRAILER.fullmatch(line) for line in block)
    rest = lines[end:] if any(line.strip() for line in lines[end:]) else [""]
    return "\n".join([*(lines[:end] or [""]), *([] if continues else [""]), *fresh, *rest])


def _find_message_end(lines: Sequence[str], comment: str) -> int:
    """Where the message ends: after its last line that is neither blank nor a comment."""
    cut = next((n for n, line in enumerate(lines) if line.startswith(comment) and SCISSORS in line), len(lines))
    said = [n for n, line in enumerate(lines[:cut]) if line.strip() and not line.startswith(comment)]
    return said[-1] + 1 if said else 0


def find_violations(message: str, style: TrailerStyle, comment: str = "#") -> list[TrailerFinding]:
    """The lines of a message that the policy does not allow, and any signature by an agent."""
    lines = message.split("\n")[: _find_message_end(message.split("\n"), comment)]
    found = [_check_line(number, line.strip(), style) for number, line in enumerate(lines, 1)]
    return [finding for finding in found if finding is not None]


def _check_line(number: int, line: str, style: TrailerStyle) -> TrailerFinding | None:
    found = TRAILER.fullmatch(line)
    key, value = (found["key"].lower(), found["value"]) if found else ("", "")
    if key == "signed-off-by" and is_agent_identity(value):
        why = "an agent cannot certify what a sign-off certifies; a person signs with `git commit --signoff`"
        return TrailerFinding("SIGNED_OFF_BY_AGENT", number, line, why)
    agents = key in KEY_STYLES and (key != "co-authored-by" or is_agent_identity(value))
    if (agents and KEY_STYLES[key] != style) or _ADVERT.fullmatch(line):
        why = f"[trailers] style is {style!r}, which does not allow it"
        return TrailerFinding("TRAILER_AGAINST_POLICY", number, line, why)
    return None


def is_agent_identity(value: str) -> bool:
    """Whether `Name <address>` is an agent's: by an address that only agents have, or a name that no person has."""
    person = _PERSON.fullmatch(value)
    if person is None:
        return False
    return bool(
        _OF_AGENTS.fullmatch((person["address"] or "").strip()) or _AGENT_NAME.fullmatch(person["name"].strip())
    )


def remove_lines(message: str, findings: Iterable[TrailerFinding]) -> str:
    """The message without those lines."""
    gone = {finding.line for finding in findings}
    return "\n".join(line for number, line in enumerate(message.split("\n"), 1) if number not in gone)
