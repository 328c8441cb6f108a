"""Trailers of commit messages that name agents: written by the project's policy, and checked against the policy.

`Signed-off-by` certifies that a person may submit the work: never written, and never valid for an agent.
Sources: Linux kernel, Documentation/process/coding-assistants.rst; git-interpret-trailers(1); both read 2026-11.
"""

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from remit.core.agents import ROWS
from remit.core.config import TrailerStyle
from remit.core.untrusted_input import sanitise_line

TRAILER = re.compile(r"(?P<key>[A-Za-z][A-Za-z0-9-]*)[ \t]*:[ \t]*(?P<value>.*)")
SCISSORS = ">8"
AGENT_DOMAIN = "agents.invalid"
"""Mail domain that never exists (RFC 2606), and that no hosting site maps to a person."""
_OF_AGENTS = re.compile(
    "(?:"
    + "".join(f"{row.author_addresses}|" for row in ROWS.values() if row.author_addresses)
    + r"cursoragent@cursor\.com|(?:\d+\+)?copilot@users\.noreply\.github\.com"
    r"|[^@]*\[bot\]@.*|.*@" + re.escape(AGENT_DOMAIN) + r")",
    re.IGNORECASE,
)
_AGENTS = (
    f"(?:{'|'.join(row.author_names for row in ROWS.values())}|"
    r"(?:github )?copilot|chatgpt|cursor(?: |-)?agent|opencode|aider|devin ai|windsurf)"
)
_AGENT_NAME = re.compile(rf"{_AGENTS}\b.*", re.IGNORECASE)
"""Names that no person has; people are called `Claude`."""
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
    """A forbidden line. `code` is SIGNED_OFF_BY_AGENT or TRAILER_AGAINST_POLICY; lines count from 1."""

    code: str
    line: int
    text: str
    message: str


def build_trailers(helped: Iterable[AgentContribution], style: TrailerStyle) -> list[str]:
    """Return a line per agent in the policy's style, each once."""
    lines: list[str] = []
    for contribution in helped:
        agent = sanitise_line(contribution.agent, 80)
        match style:
            case "kernel":
                model = f":{sanitise_line(contribution.model, 80)}" if contribution.model else ""
                lines.append(f"Assisted-by: {agent}{model}")
            case "apache":
                version = f" {sanitise_line(contribution.version, 40)}" if contribution.version else ""
                lines.append(f"Generated-by: {agent}{version}")
            case "coauthor":
                lines.append(f"Co-authored-by: {agent} <{re.sub(r'[^A-Za-z0-9.-]', '-', agent)}@{AGENT_DOMAIN}>")
            case "Remit-Intent" if contribution.intent_id:
                lines.append(f"Remit-Intent: {sanitise_line(contribution.intent_id, 80)}")
            case "Remit-Intent" | "none":
                pass
    return list(dict.fromkeys(lines))


def add_trailers(message: str, trailers: Sequence[str], comment: str = "#") -> str:
    """Insert missing trailers before the part that git cuts off: comments, and the patch."""
    lines = message.split("\n")
    end = _find_message_end(lines, comment)
    missing = [line for line in trailers if line not in lines[:end]]
    if not missing:
        return message
    start = next((n + 1 for n in range(end - 1, -1, -1) if not lines[n].strip()), 0)
    block = [line for line in lines[start:end] if not line.startswith(comment)]
    continues = start > 0 and bool(block) and all(TRAILER.fullmatch(line) for line in block)
    tail = lines[end:] if any(line.strip() for line in lines[end:]) else [""]
    return "\n".join([*(lines[:end] or [""]), *([] if continues else [""]), *missing, *tail])


def _find_message_end(lines: Sequence[str], comment: str) -> int:
    cut = next((n for n, line in enumerate(lines) if line.startswith(comment) and SCISSORS in line), len(lines))
    text_lines = [n for n, line in enumerate(lines[:cut]) if line.strip() and not line.startswith(comment)]
    return text_lines[-1] + 1 if text_lines else 0


def find_violations(message: str, style: TrailerStyle, comment: str = "#") -> list[TrailerFinding]:
    """Return the lines that the policy forbids, and signatures by agents."""
    lines = message.split("\n")
    findings: list[TrailerFinding] = []
    for number, line in enumerate(map(str.strip, lines[: _find_message_end(lines, comment)]), 1):
        match = TRAILER.fullmatch(line)
        key, value = (match["key"].lower(), match["value"]) if match else ("", "")
        names_agent = key in KEY_STYLES and (key != "co-authored-by" or is_agent_identity(value))
        if key == "signed-off-by" and is_agent_identity(value):
            reason = "an agent cannot certify what a sign-off certifies; a person signs with `git commit --signoff`"
            findings.append(TrailerFinding("SIGNED_OFF_BY_AGENT", number, line, reason))
        elif (names_agent and KEY_STYLES[key] != style) or _ADVERT.fullmatch(line):
            reason = f"[trailers] style is {style!r}, which does not allow it"
            findings.append(TrailerFinding("TRAILER_AGAINST_POLICY", number, line, reason))
    return findings


def is_agent_identity(value: str) -> bool:
    person = _PERSON.fullmatch(value)
    if person is None:
        return False
    address, name = (person["address"] or "").strip(), person["name"].strip()
    return bool(_OF_AGENTS.fullmatch(address) or _AGENT_NAME.fullmatch(name))


def remove_lines(message: str, findings: Iterable[TrailerFinding]) -> str:
    removed = {finding.line for finding in findings}
    return "\n".join(line for number, line in enumerate(message.split("\n"), 1) if number not in removed)
