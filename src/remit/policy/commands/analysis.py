"""The analysis of a shell command: its effects, as far as the text proves them."""

import re
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.policy.commands.dangers import find_danger, find_unseen_program
from remit.policy.commands.interpret.interpreter import CommandProof
from remit.policy.commands.interpret.prove import literal_simple_command, prove_command
from remit.policy.commands.parse.syntax_tree import unmask_text
from remit.policy.commands.parse.words import UnprovedCommand
from remit.policy.commands.programs.effects import Write

CommandOutcome: TypeAlias = Literal["read_only", "literal_writes", "dangerous", "unknown"]

MAX_BYTES = 64 * 1024
"""Bytes of a command; a longer command is unknown without being parsed."""

MAX_CACHED = 32
"""Cached analyses: the gate, the classification and several checks ask about each call, before and after the tool."""

CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


class CommandAnalysis(Struct, frozen=True):
    """The effects of a command. `unknown` is no objection: the effects are not in the text.

    `reasons` name the deciding words. `reads` are the literal file operands of a read-only command, unquoted, relative
    to the starting folder. `writes` are all written places, None if unknown; they hold if the `entered_folders` exist.
    `is_irreversible`: the damage of a dangerous command cannot be restored. `is_forbidden`: the command changes files
    that govern agents. `remit_words` follow `remit` in a command without other programs; alone they decide nothing. In
    an unknown command of known programs, `git_verbs` are the writing git commands, and `git_folders` the folders
    entered.
    """

    outcome: CommandOutcome
    reasons: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    remit_words: tuple[str, ...] | None = None
    writes: tuple[Write, ...] | None = None
    entered_folders: tuple[str, ...] = ()
    is_irreversible: bool = False
    is_forbidden: bool = False
    git_verbs: tuple[str, ...] = ()
    git_folders: tuple[str, ...] = ()


@lru_cache(MAX_CACHED)
def analyse(command: str, repositories: frozenset[str] = frozenset()) -> CommandAnalysis:
    """Return the effects of `command`, run by bash. Never raises; pure.

    `repositories` are absolute folders with git settings known to be the user's own: after `cd` to a repository in the
    list, or with `git -C`, a git command stays provable. Git in any other folder is unknown: an agent may have made the
    repository, with programs in the settings.
    """
    # 1. The text must be readable, and all its syntax known.
    try:
        check_text(command)
        remit_words = find_remit_words(command)
        proof = prove_command(command)
    except UnprovedCommand as error:
        return analyse_unproved(command, str(error))

    # 2. git runs only where its settings are the user's, and every command shows its changes.
    strange = [folder for folder in proof.git_folders if folder not in repositories]
    if "git" in proof.programs and strange:
        why = f"git in {strange[0]!r} may meet settings that run programs"
        return add_git_verbs(analyse_unproved(command, why), proof)
    if proof.undetermined:
        return add_git_verbs(analyse_unproved(command, proof.undetermined[0]), proof)

    # 3. All effects are known.
    if not proof.changes_state and not proof.writes:
        return CommandAnalysis("read_only", read_reasons(proof), named_reads(proof), remit_words, ())
    # A formatter keeps everything but the form, so that it writes no place entirely.
    written_whole = tuple(w.path for w in proof.writes if w.is_recursive and not (w.edits_in_place and w.is_optional))
    danger = find_danger(command, written_whole)
    entered = tuple(dict.fromkeys(proof.entered_folders))
    if danger is not None:
        return CommandAnalysis(
            "dangerous",
            (danger.reason,),
            remit_words=remit_words,
            writes=proof.writes,
            entered_folders=entered,
            is_irreversible=danger.is_irreversible,
            is_forbidden=danger.is_forbidden,
        )
    if unseen := find_unseen_program(command, proof.programs):
        why = f"`{unseen}` stands where dangers are not looked for"
        return CommandAnalysis("unknown", (why,), remit_words=remit_words)
    return CommandAnalysis("literal_writes", write_reasons(proof), (), remit_words, proof.writes, entered)


def analyse_unproved(command: str, why: str) -> CommandAnalysis:
    """Return the analysis of a command whose text does not show all writes."""
    try:
        check_text(command)
        remit_words = find_remit_words(command)
    except UnprovedCommand:
        remit_words = None
    danger = find_danger(command)
    if danger is None:
        return CommandAnalysis("unknown", (unmask_text(why),), remit_words=remit_words)
    return CommandAnalysis(
        "dangerous",
        (danger.reason,),
        remit_words=remit_words,
        is_irreversible=danger.is_irreversible,
        is_forbidden=danger.is_forbidden,
    )


def add_git_verbs(analysis: CommandAnalysis, proof: CommandProof) -> CommandAnalysis:
    """Return the analysis with the git commands of a text whose programs are all known."""
    if not proof.undetermined or any(".git" in write.path or write.glob for write in proof.writes):
        return analysis
    verbs, folders = tuple(dict.fromkeys(proof.git_verbs)), tuple(dict.fromkeys(proof.git_folders))
    return replace(analysis, git_verbs=verbs, git_folders=folders)


def check_text(command: str) -> None:
    """Raise UnprovedCommand for a command that must not be parsed."""
    if len(command) > MAX_BYTES:
        raise UnprovedCommand(f"the command is longer than {MAX_BYTES} bytes")
    if found := CONTROL_CHARACTER.search(command):
        raise UnprovedCommand(f"the command holds the control character {found[0]!r}")
    try:
        size = len(command.encode())
    except UnicodeEncodeError as error:
        raise UnprovedCommand("the command is not valid Unicode") from error
    if size > MAX_BYTES:
        raise UnprovedCommand(f"the command is longer than {MAX_BYTES} bytes")


def find_remit_words(command: str) -> tuple[str, ...] | None:
    words = literal_simple_command(command)
    return words[1:] if words is not None and words[0].rpartition("/")[2] == "remit" else None


def read_reasons(proof: CommandProof) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(proof.programs))
    return tuple(f"`{name}` only reads here" for name in names) or ("nothing is run",)


def write_reasons(proof: CommandProof) -> tuple[str, ...]:
    written = tuple(f"{write.path!r} is written" for write in proof.writes)
    return written or tuple(f"`{name}` writes to no file here" for name in dict.fromkeys(proof.programs))


def named_reads(proof: CommandProof) -> tuple[str, ...]:
    """Return the files that are read; after a change of folder only absolute paths are known."""
    named = dict.fromkeys(proof.reads)
    return tuple(path for path in named if path and (path.startswith("/") or not proof.git_folders))
