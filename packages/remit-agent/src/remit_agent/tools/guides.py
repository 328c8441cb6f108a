"""The tools that fetch a slash command or a skill of the repository. Each call that follows is judged by itself."""

import difflib
from pathlib import Path

from msgspec import Struct

from remit.gate.perform import ToolOutput, WorkspaceAccess
from remit_agent.tools.asking import prepare_without_effect
from remit_agent.tools.reading import find_root
from remit_agent.tools.repository_texts import Guide, GuideKind, find_guides, list_folder
from remit_agent.tools.tool import HostTool, PreparedCall, ToolContext, ToolFailure

ARGUMENTS_MARK = "$ARGUMENTS"


class RunSlashCommand(Struct, frozen=True, forbid_unknown_fields=True):
    """Fetch the instructions of a slash command, with arguments. Example:
    {"command": "review", "args": "src/app.py"}
    """

    command: str
    args: str = ""


class UseSkill(Struct, frozen=True, forbid_unknown_fields=True):
    """Fetch the instructions of a skill before you do what it is about. Example: {"skill": "release-notes"}"""

    skill: str
    args: str = ""


def find_guide(root: Path, kind: GuideKind, name: str) -> Guide:
    """Return a guide by its name. Raises ToolFailure (NO_SUCH_GUIDE) that names the nearest."""
    guides = find_guides(root, kind)
    guide = guides.get(name.removeprefix("/"))
    if guide is None:
        near = difflib.get_close_matches(name, guides, 3, 0.4) or list(guides)[:10]
        message = f"there is no {kind} {name[:60]!r} (there are: {', '.join(near) or 'none'})"
        raise ToolFailure("NO_SUCH_GUIDE", message, "choose_another_name")
    return guide


def fill_arguments(text: str, args: str) -> str:
    if ARGUMENTS_MARK in text:
        return text.replace(ARGUMENTS_MARK, args)
    return f"{text.rstrip()}\n\nArguments: {args}" if args else text


def expand_command(root: Path, words: str) -> str:
    """Return a person's words with a slash command of the repository at their beginning replaced by its text."""
    name, _, args = words.partition(" ")
    guide = find_guides(root, "command").get(name[1:]) if name.startswith("/") else None
    return words if guide is None else f"{guide.path}\n\n{fill_arguments(guide.text, args.strip())}"


def prepare_slash_command(context: ToolContext, given: RunSlashCommand) -> PreparedCall:
    def act(access: WorkspaceAccess) -> ToolOutput:
        guide = find_guide(find_root(context), "command", given.command)
        return ToolOutput(True, f"{guide.path}\n\n{fill_arguments(guide.text, given.args)}")

    return prepare_without_effect(context, act)


def prepare_skill(context: ToolContext, given: UseSkill) -> PreparedCall:
    def act(access: WorkspaceAccess) -> ToolOutput:
        guide = find_guide(find_root(context), "skill", given.skill)
        folder = guide.path.rpartition("/")[0]
        files = [name for name in list_folder(find_root(context), folder) if name != "SKILL.md"]
        beside = f"\n\nFiles beside it, in {folder}: {', '.join(files)}" if files else ""
        return ToolOutput(True, f"{guide.path}\n\n{fill_arguments(guide.text, given.args)}{beside}")

    return prepare_without_effect(context, act)


GUIDE_TOOLS = (
    HostTool("run_slash_command", RunSlashCommand, "mode", prepare_slash_command),
    HostTool("skill", UseSkill, "mode", prepare_skill),
)
