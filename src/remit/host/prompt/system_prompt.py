"""The system prompt: twelve sections in a fixed order. Equal files and settings give equal bytes; no section holds a
time.

Words of people and files stand in frames, `<remit_…>`, that their text cannot close.
"""

import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from remit.core.decision import Mode
from remit.core.intents.context_block import remove_invisible
from remit.host.models.port import ToolSchema
from remit.host.modes import AgentMode
from remit.host.prompt.sections import (
    CAPABILITIES,
    EDIT_HINTS,
    GUIDANCE,
    IGNORE_RULE,
    MARKDOWN,
    OBJECTIVE,
    PROTOCOL,
    TOOL_USE,
)
from remit.host.repository_texts import MAX_RULES_BYTES, collect_rules, find_guides
from remit.workspace.place.workspace import find_git_root

FRAME = re.compile(r"<(?=\s*/?\s*(?:remit|intent_context))", re.IGNORECASE)
"""Start of a mark that frames text; in a framed text it is escaped."""


class PromptSettings(Struct, frozen=True):
    """A person's settings for the prompt: the language of answers, and instructions for every mode."""

    language: str = ""
    instructions: str = ""


def escape_frames(text: str) -> str:
    return FRAME.sub("&lt;", remove_invisible(text))


def frame_text(name: str, text: str, path: str = "") -> str:
    attribute = f' path="{escape_frames(path).replace(chr(34), "")}"' if path else ""
    return f"<remit_{name}{attribute}>\n{escape_frames(text).strip()}\n</remit_{name}>"


def build_system_prompt(
    root: Path,
    mode: AgentMode,
    modes: Mapping[str, AgentMode],
    tools: Sequence[str],
    *,
    governed: Mode | None,
    servers: Iterable[str] = (),
    settings: PromptSettings | None = None,
    shell: str = "/bin/sh",
) -> str:
    """Return the prompt of a mode. `tools` are the names on offer, `governed` the governance mode if there is one."""
    own = frame_text("role", mode.role, mode.source) if mode.source else mode.role
    edits = " ".join(EDIT_HINTS[name] for name in tools if name in EDIT_HINTS)
    sections = [
        own,
        MARKDOWN,
        TOOL_USE,
        GUIDANCE.format(edits=edits or "In this mode there are none."),
        describe_capabilities(tools, servers),
        describe_modes(modes),
        describe_skills(root),
        describe_rules(root, mode.slug),
        describe_system(root, shell),
        OBJECTIVE,
        PROTOCOL.format(mode=governed) if governed else "",
        describe_instructions(root, mode, settings or PromptSettings()),
    ]
    return "\n\n".join(filter(None, sections))


def describe_capabilities(tools: Sequence[str], servers: Iterable[str]) -> str:
    lines = [CAPABILITIES.format(tools=", ".join(tools))]
    names = sorted(map(escape_frames, servers))
    lines += [f"MCP servers, by `use_mcp_tool` and `access_mcp_resource`: {', '.join(names)}."] if names else []
    return "\n".join(lines)


def describe_modes(modes: Mapping[str, AgentMode]) -> str:
    rows = [f"- `{mode.slug}`: {escape_frames(mode.when_to_use or mode.name)}" for mode in modes.values()]
    return "\n".join(["# Modes", "", *rows])


def describe_skills(root: Path) -> str:
    rows = [f"- `{guide.name}`: {guide.description}" for guide in find_guides(root, "skill").values()]
    if not rows:
        return ""
    frame = frame_text("skills", "\n".join(rows))
    return f"# Skills\n\nFetch one with `skill` before you do what it is about.\n{frame}"


def describe_rules(root: Path, mode: str) -> str:
    rules = collect_rules(root, mode)
    if not rules:
        return ""
    frames = [frame_text("rules", rule.text, rule.path) for rule in rules if rule.text]
    cut = [rule.path for rule in rules if rule.is_cut]
    limit = f"Together they take {MAX_RULES_BYTES >> 10} KB; cut, read them yourself: {', '.join(cut)}."
    return "\n\n".join(["# Rules of this repository", *frames, *([limit] if cut else [])])


def describe_system(root: Path, shell: str) -> str:
    git = find_git_root(root)
    rows = [f"Operating system: {platform.uname()[0]}", f"Shell: {shell}", f"Workspace: {root}"]
    rows += [f"Git root: {git}"] if git is not None else []
    return "\n".join(["# System", "", *rows, "Paths in tool calls are relative to the workspace."])


def describe_instructions(root: Path, mode: AgentMode, settings: PromptSettings) -> str:
    parts: list[str] = []
    if settings.language:
        parts.append(f"Answer in this language: {escape_frames(settings.language)}.")
    if settings.instructions:
        parts.append(frame_text("instructions", settings.instructions))
    if mode.instructions:
        parts.append(frame_text("mode_instructions", mode.instructions, mode.source or mode.slug))
    if any((root / name).is_file() for name in (".intentignore", ".orchestration/.intentignore")):
        parts.append(IGNORE_RULE)
    return "\n\n".join(["# Instructions", *parts]) if parts else ""


def print_prompt(system: str, tools: Sequence[ToolSchema], tail: str = "") -> str:
    """Return what a model would be sent: the system prompt, the tools as JSON, and the next tail."""
    schemas = msgspec.json.format(msgspec.json.encode(tools, order="sorted"), indent=1).decode()
    return "\n\n".join(filter(None, (system, schemas, tail)))
