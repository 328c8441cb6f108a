"""Texts that a repository brings for agents: rules, skills, slash commands. They are words, and need no trust.

| texts | folders and files, the first one wins |
|---|---|
| rules | `.orchestration/rules` and `rules-<mode>`, `AGENTS.md`, `CLAUDE.md`, the same folders of `.roo`, `.roorules` |
| skills | `.orchestration/skills/*/SKILL.md`, `.claude/skills`, `.roo/skills` |
| slash commands | `.orchestration/commands/*.md`, `.roo/commands` |
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from remit.core.agents import ROWS
from remit.core.untrusted_input import as_object, sanitise_line
from remit.workspace.intents_file import yaml_nodes
from remit.workspace.safe_files import read_regular_file

MAX_RULES_BYTES = 32 * 1024
MAX_TEXT_BYTES = 256 * 1024
MAX_GUIDES = 200
RULE_FILES = [row.instructions_file for row in ROWS.values() if row.instructions_file]
SKILL_FOLDERS = [row.skills_folder for row in ROWS.values() if row.skills_folder]
GuideKind: TypeAlias = Literal["skill", "command"]
GUIDE_FOLDERS: dict[GuideKind, tuple[str, ...]] = {
    "skill": (".orchestration/skills", *SKILL_FOLDERS, ".roo/skills"),
    "command": (".orchestration/commands", ".roo/commands"),
}
FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
POINTS_AT_AGENTS = re.compile(r"\s*(?:#[^\n]*\n)?\s*(?:see |read )?[@`\[(]*(?:\./)?AGENTS\.md\S*\s*", re.IGNORECASE)


class RuleText(Struct, frozen=True):
    """A text of rules; `path` is relative to the workspace. `is_cut`: the rest does not fit."""

    path: str
    text: str
    is_cut: bool = False


class Guide(Struct, frozen=True):
    """A skill or a slash command."""

    name: str
    description: str
    path: str
    text: str


def read_repository_text(root: Path, path: str) -> str | None:
    """Return a text of the repository; None for a missing, too large or foreign file: no link leads out."""
    place = Path(os.path.realpath(root / path))
    if not place.is_relative_to(os.path.realpath(root)):
        return None
    try:
        return read_regular_file(place, MAX_TEXT_BYTES).decode("utf-8", "replace").removeprefix("\ufeff")
    except OSError:
        return None


def list_folder(root: Path, folder: str) -> list[str]:
    try:
        return sorted(entry.name for entry in (root / folder).iterdir())
    except OSError:
        return []


def collect_rules(root: Path, mode: str) -> list[RuleText]:
    """Return the rules in their order, MAX_RULES_BYTES together; what does not fit is cut, and marked."""
    found: list[RuleText] = []
    left = MAX_RULES_BYTES
    for path in list_rule_paths(root, mode):
        text = (read_repository_text(root, path) or "").strip()
        if not text or (path in RULE_FILES and POINTS_AT_AGENTS.fullmatch(text)):
            continue
        kept = text.encode("utf-8", "replace")[:left].decode("utf-8", "ignore")
        found.append(RuleText(path, kept, is_cut=len(kept) < len(text)))
        left -= len(kept.encode())
    return found


def list_rule_paths(root: Path, mode: str) -> Iterator[str]:
    for folder in (".orchestration/rules", f".orchestration/rules-{mode}"):
        yield from list_rule_files(root, folder)
    yield from ("AGENTS.md", *RULE_FILES)
    for folder in (".roo/rules", f".roo/rules-{mode}"):
        yield from list_rule_files(root, folder)
    yield ".roorules"


def list_rule_files(root: Path, folder: str) -> list[str]:
    return [f"{folder}/{name}" for name in list_folder(root, folder) if name.endswith((".md", ".txt"))]


def find_guides(root: Path, kind: GuideKind) -> dict[str, Guide]:
    """Return the skills or commands by name, sorted."""
    found: dict[str, Guide] = {}
    for folder in GUIDE_FOLDERS[kind]:
        for entry in list_folder(root, folder)[:MAX_GUIDES]:
            path = f"{folder}/{entry}/SKILL.md" if kind == "skill" else f"{folder}/{entry}"
            text = read_repository_text(root, path) if path.endswith(".md") else None
            if text is None:
                continue
            match = FRONT_MATTER.match(text)
            fields = as_object(parse_yaml(match[1])) if match else {}
            body = text[match.end() :] if match else text
            first = next((line.strip("# \t") for line in body.splitlines() if line.strip("# \t")), "")
            name = entry.removesuffix(".md")
            found.setdefault(name, Guide(name, sanitise_line(str(fields.get("description") or first), 200), path, body))
    return dict(sorted(found.items()))


def parse_yaml(text: str) -> Any:
    """Return YAML as dictionaries, lists and texts; None if it cannot be read."""
    try:
        return to_values(yaml_nodes.compose_nodes(text))
    except yaml_nodes.UnreadableYaml:
        return None


def to_values(node: yaml_nodes.YamlNode | None) -> Any:
    match node:
        case yaml_nodes.YamlMapping(pairs=pairs):
            return {key.text: to_values(value) for key, value in pairs if isinstance(key, yaml_nodes.YamlScalar)}
        case yaml_nodes.YamlSequence(items=items):
            return [to_values(item) for item in items]
        case yaml_nodes.YamlScalar(text=text):
            return text
        case _:
            return None
