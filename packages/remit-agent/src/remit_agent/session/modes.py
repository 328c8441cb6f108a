"""The modes of the agent: the agent's role, its tools, and the paths its changes are narrowed to.

| mode | tools | its changes are narrowed to |
|---|---|---|
| `architect` | read, write, intents | Markdown files |
| `code` | every group | the intent's scope only |
| `ask` | read | no file |
| `debug` | every group | the intent's scope only |
| `orchestrator` | read, intents, child tasks | no file |

A repository brings its own in `.orchestration/modes/*.yaml`, `.roo/modes/*.yaml` and `.roomodes`, with the keys `slug`,
`name`, `roleDefinition`, `whenToUse`, `description`, `customInstructions`, `groups`, and `fileRegex` or `paths`. A mode
narrows the intent's scope, and never widens the scope; a mode with the slug of a built-in mode also stays within
the built-in mode.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from remit.core.scope.path_patterns import glob_error
from remit.core.untrusted_input import as_array, as_object, as_objects, as_text, sanitise_line
from remit_agent.tools.repository_texts import list_folder, parse_yaml, read_repository_text
from remit_agent.tools.tool import ToolGroup

DEFAULT_MODE = "code"
ALL_GROUPS: frozenset[ToolGroup] = frozenset(("read", "write", "command", "mcp", "intent", "mode"))
GROUPS_OF_ALL_MODES: frozenset[ToolGroup] = frozenset(("intent", "mode"))
GROUP_NAMES: dict[str, ToolGroup] = {
    "read": "read", "edit": "write", "write": "write", "command": "command", "mcp": "mcp", "modes": "mode",
    "mode": "mode", "intent": "intent", "intents": "intent",
}  # fmt: skip
"""Groups by the names that mode files use."""
SLUG = re.compile(r"[A-Za-z0-9-]{1,64}")
SUFFIX_REGEX = re.compile(r"(?:\.\*)?\\\.(?:(\w+)|\((\w+(?:\|\w+)*)\))\$")
"""A regular expression of file names that a glob says as well: `\\.md$`, `.*\\.(ts|tsx)$`."""
MAX_TEXT_CHARS = 8000


class AgentMode(Struct, frozen=True):
    """A mode. `paths` are globs in addition to the intent's scope: None does not narrow the scope, () allows no
    file.
    """

    slug: str
    name: str
    role: str
    when_to_use: str = ""
    instructions: str = ""
    groups: frozenset[ToolGroup] = ALL_GROUPS
    paths: tuple[str, ...] | None = None
    source: str = ""

    def is_wider_than(self, other: "AgentMode") -> bool:
        """Return whether the mode has a group or a path that the other mode lacks."""
        return not (self.groups <= other.groups and has_only_paths_of(self.paths, other.paths))


BUILT_IN_MODES = (
    AgentMode(
        "architect",
        "Architect",
        "You are an experienced engineer who plans before anything is built: you read, ask, and write the plan down.",
        "to plan, to design, or to break a task down before it is coded",
        "Read what is there first. Write the plan as Markdown, with the files that each step changes. End a plan by "
        "proposing an intent (`propose_intent`) whose scope is these files, unless one covers them.",
        frozenset(("read", "write", "intent", "mode")),
        ("**/*.md",),
    ),
    AgentMode(
        "code",
        "Code",
        "You are a skilled software engineer who makes small, tested changes in the style of the code around them.",
        "to write, change or refactor code",
    ),
    AgentMode(
        "ask",
        "Ask",
        "You are an engineer who explains: you answer questions about the code, and change nothing.",
        "to explain code, or to answer a question",
        "Name the files and lines that your answer rests on.",
        frozenset(("read", "mode")),
        (),
    ),
    AgentMode(
        "debug",
        "Debug",
        "You are an engineer who finds the cause of a defect before mending it.",
        "to find out why something fails",
        "Reproduce the failure first. Name at least two causes that would explain it, and tell them apart by a test or "
        "by output. Only then change the code, and show that the failure is gone.",
    ),
    AgentMode(
        "orchestrator",
        "Orchestrator",
        "You are a coordinator who divides a task into child tasks and joins their results.",
        "for a task of several parts that need different modes",
        "Give each child task all that it must know, and a `scope` of files that no other child has; say where scopes "
        "would overlap, and do such parts one after the other. Change nothing yourself.",
        frozenset(("read", "intent", "mode")),
        (),
    ),
)


def has_only_paths_of(paths: tuple[str, ...] | None, outer: tuple[str, ...] | None) -> bool:
    return outer is None or (paths is not None and set(paths) <= set(outer))


def find_modes(root: Path) -> dict[str, AgentMode]:
    """Return the modes by slug: the built-in modes, followed by the modes of the repository, sorted."""
    built_in = {mode.slug: mode for mode in BUILT_IN_MODES}
    found: dict[str, AgentMode] = {}
    for source, fields in list_mode_files(root):
        mode = make_mode(fields, source)
        if mode is not None and mode.slug not in found:
            own = built_in.get(mode.slug)
            found[mode.slug] = mode if own is None else limit_mode(mode, own)
    return {**built_in, **dict(sorted(found.items()))}


def list_mode_files(root: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    folders = (".orchestration/modes", ".roo/modes")
    files = [f"{folder}/{name}" for folder in folders for name in list_folder(root, folder)]
    for path in [*(path for path in files if path.endswith((".yaml", ".yml"))), ".roomodes"]:
        document = as_object(parse_yaml(read_repository_text(root, path) or ""))
        yield from ((path, fields) for fields in as_objects(document.get("customModes")) or [document])


def make_mode(fields: dict[str, Any], source: str) -> AgentMode | None:
    """Return the mode; None without a usable slug and role."""
    slug, role = as_text(fields.get("slug")), as_text(fields.get("roleDefinition"))
    if slug is None or role is None or not SLUG.fullmatch(slug):
        return None
    groups: set[ToolGroup] = set(GROUPS_OF_ALL_MODES)
    paths = read_paths(fields)
    for entry in as_array(fields.get("groups")):
        name, options, *_ = *(as_array(entry) or [entry]), None
        group = GROUP_NAMES.get(str(name))
        if group is not None:
            groups.add(group)
            narrower = read_paths(as_object(options))
            paths = narrower if group == "write" and narrower is not None else paths
    if "write" not in groups and "command" not in groups:
        paths = ()
    return AgentMode(
        slug,
        sanitise_line(as_text(fields.get("name")) or slug, 80),
        role[:MAX_TEXT_CHARS],
        sanitise_line(as_text(fields.get("whenToUse")) or as_text(fields.get("description")) or "", 300),
        (as_text(fields.get("customInstructions")) or "")[:MAX_TEXT_CHARS],
        frozenset(groups),
        paths,
        source,
    )


def read_paths(fields: dict[str, Any]) -> tuple[str, ...] | None:
    if "paths" in fields:
        globs = tuple(str(path) for path in as_array(fields["paths"]) or [fields["paths"]])
        return () if any(glob_error(path) for path in globs) else globs
    if "fileRegex" not in fields:
        return None
    match = SUFFIX_REGEX.fullmatch(str(fields["fileRegex"]))
    if match is None:
        return ()
    return tuple(f"**/*.{suffix}" for suffix in (match[1] or match[2]).split("|"))


def limit_mode(mode: AgentMode, own: AgentMode) -> AgentMode:
    paths = mode.paths if has_only_paths_of(mode.paths, own.paths) else own.paths
    return replace(mode, groups=mode.groups & own.groups, paths=paths)
