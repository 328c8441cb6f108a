"""The answer about one command: what is proved of it, by which words."""

import re
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.policy.commands.dangers import find_danger, find_unseen_program
from remit.policy.commands.interpret.prove import CommandProof, literal_simple_command, prove_command
from remit.policy.commands.parse.syntax_tree import unmask_text
from remit.policy.commands.parse.words import UnprovedCommand
from remit.policy.commands.programs.effects import Write

CommandOutcome: TypeAlias = Literal["read_only", "literal_writes", "dangerous", "unknown"]

MAX_BYTES = 64 * 1024
"""Bytes; a longer text is unknown without being parsed."""

MAX_CACHED = 32
"""Answers kept: a call is asked about by its door, its class and several checks, before and after."""

CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


class CommandAnalysis(Struct, frozen=True):
    """What a command does. `unknown` says nothing against it: it says that the text does not tell.

    `reasons` name the words that decided. `reads` are the literal file operands of a proved read-only command,
    unquoted, relative to the folder it starts in. `writes` are all the places that it writes to; None where the text
    does not tell them all. They hold if the folders it `enters` are there. `lasting`: it is dangerous, and nothing
    brings back what it does; `barred`: it changes what governs agents, which no agent may. `remit` are the words after
    `remit`, when that is the whole command; it decides nothing by itself. `git`: of an unknown one whose every program
    is on the tables, the verbs of git's commands that write, and `folders` the ones that it goes into.
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
    """What `command`, run by bash, does. Never raises; pure.

    `repositories` are absolute folders whose git settings are known to be the user's own: `cd` to one of
    them, or `git -C`, leaves a git command provable. A repository made by the agent could name a program
    to run in its settings, so git anywhere else is unknown.
    """
    try:
        text = _check_text(command)
        words = literal_simple_command(text)
        proof = prove_command(text)
    except UnprovedCommand as refused:
        return _analyse_unproved(command, unmask_text(str(refused)))
    try:
        proof = _check_repositories(proof, repositories)
    except UnprovedCommand as refused:
        return _add_git_verbs(_analyse_unproved(command, unmask_text(str(refused))), proof)
    if proof.undetermined:
        return _add_git_verbs(_analyse_unproved(command, unmask_text(proof.undetermined[0])), proof)
    remit = _words_after_remit(words)
    if not proof.changes_state and not proof.writes:
        return CommandAnalysis("read_only", _read_reasons(proof), _named_reads(proof), remit, ())
    writes, enters = proof.writes, tuple(dict.fromkeys(proof.entered_folders))
    found = find_danger(command, _paths_written_whole(writes))
    if found is None and (hidden := find_unseen_program(command, proof.programs)):
        return CommandAnalysis("unknown", (f"`{hidden}` stands where dangers are not looked for",), remit_words=remit)
    if found is not None:
        return CommandAnalysis(
            "dangerous", (found.reason,), (), remit, writes, enters, found.is_irreversible, found.is_forbidden
        )
    return CommandAnalysis("literal_writes", _write_reasons(proof), (), remit, writes, enters)


def _add_git_verbs(analysis: CommandAnalysis, proof: CommandProof) -> CommandAnalysis:
    """The answer about a text whose programs are all known, some of them commands of git's that write."""
    if not proof.undetermined or any(".git" in write.path or write.glob for write in proof.writes):
        return analysis
    return replace(
        analysis, git_verbs=tuple(dict.fromkeys(proof.git_verbs)), git_folders=tuple(dict.fromkeys(proof.git_folders))
    )


def _analyse_unproved(command: str, reason: str) -> CommandAnalysis:
    """The answer where the text does not tell all that is written."""
    found = find_danger(command)
    remit = _find_remit_words(command)
    if found is not None:
        return CommandAnalysis(
            "dangerous",
            (found.reason,),
            remit_words=remit,
            is_irreversible=found.is_irreversible,
            is_forbidden=found.is_forbidden,
        )
    return CommandAnalysis("unknown", (reason,), remit_words=remit)


def _paths_written_whole(writes: tuple[Write, ...]) -> tuple[str, ...]:
    """The places of which everything is written: not by a formatter, which keeps all but the form."""
    return tuple(
        write.path for write in writes if write.is_recursive and not (write.edits_in_place and write.is_optional)
    )


def _check_text(command: str) -> str:
    """`command`, when it can be parsed at all; raises Refused."""
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
    return command


def _check_repositories(proof: CommandProof, repositories: frozenset[str]) -> CommandProof:
    """`proof`, unless it runs git where settings may not be the user's; raises Refused."""
    strange = [folder for folder in proof.git_folders if folder not in repositories]
    if "git" in proof.programs and strange:
        raise UnprovedCommand(f"git in {strange[0]!r} may meet settings that run programs")
    return proof


def _read_reasons(proof: CommandProof) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(proof.programs))
    return tuple(f"`{name}` only reads here" for name in names) or ("nothing is run",)


def _write_reasons(proof: CommandProof) -> tuple[str, ...]:
    """The words that name what is written."""
    told = tuple(f"{write.path!r} is written" for write in proof.writes)
    return told or tuple(f"`{name}` writes to no file here" for name in dict.fromkeys(proof.programs))


def _named_reads(proof: CommandProof) -> tuple[str, ...]:
    """The files read; after a change of folder only the absolute ones can be named."""
    named = dict.fromkeys(proof.reads)
    return tuple(path for path in named if path and (path.startswith("/") or not proof.git_folders))


def _find_remit_words(command: str) -> tuple[str, ...] | None:
    try:
        return _words_after_remit(literal_simple_command(_check_text(command)))
    except UnprovedCommand:
        return None


def _words_after_remit(words: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if words is None or words[0].rpartition("/")[2] != "remit":
        return None
    return words[1:]
