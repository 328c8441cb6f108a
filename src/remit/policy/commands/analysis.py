"""The answer about one command: what is proved of it, by which words."""

import re
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.policy.commands.dangers import danger_in, unseen
from remit.policy.commands.effects import Write
from remit.policy.commands.proof import Proof, prove, simple_command
from remit.policy.commands.syntax import unmasked
from remit.policy.commands.words import Refused

CommandOutcome: TypeAlias = Literal["read_only", "literal_writes", "dangerous", "unknown"]

LONGEST = 64 * 1024
"""Bytes; a longer text is unknown without being parsed."""

REMEMBERED = 32
"""Answers kept: a call is asked about by its door, its class and several checks, before and after."""

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


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
    remit: tuple[str, ...] | None = None
    writes: tuple[Write, ...] | None = None
    enters: tuple[str, ...] = ()
    lasting: bool = False
    barred: bool = False
    git: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


@lru_cache(REMEMBERED)
def analyse(command: str, repositories: frozenset[str] = frozenset()) -> CommandAnalysis:
    """What `command`, run by bash, does. Never raises; pure.

    `repositories` are absolute folders whose git settings are known to be the user's own: `cd` to one of
    them, or `git -C`, leaves a git command provable. A repository made by the agent could name a program
    to run in its settings, so git anywhere else is unknown.
    """
    try:
        text = _plain_text(command)
        words = simple_command(text)
        proof = prove(text)
    except Refused as refused:
        return _unproved(command, unmasked(str(refused)))
    try:
        proof = _at_home(proof, repositories)
    except Refused as refused:
        return _by_git(_unproved(command, unmasked(str(refused))), proof)
    if proof.untold:
        return _by_git(_unproved(command, unmasked(proof.untold[0])), proof)
    remit = _after_remit(words)
    if not proof.acts and not proof.writes:
        return CommandAnalysis("read_only", _reasons(proof), _reads(proof), remit, ())
    writes, enters = proof.writes, tuple(dict.fromkeys(proof.enters))
    found = danger_in(command, _whole(writes))
    if found is None and (hidden := unseen(command, proof.programs)):
        return CommandAnalysis("unknown", (f"`{hidden}` stands where dangers are not looked for",), remit=remit)
    if found is not None:
        return CommandAnalysis("dangerous", (found.reason,), (), remit, writes, enters, found.lasting, found.barred)
    return CommandAnalysis("literal_writes", _written(proof), (), remit, writes, enters)


def _by_git(found: CommandAnalysis, proof: Proof) -> CommandAnalysis:
    """The answer about a text whose programs are all known, some of them commands of git's that write."""
    if not proof.untold or any(".git" in write.path or write.glob for write in proof.writes):
        return found
    return replace(found, git=tuple(dict.fromkeys(proof.git)), folders=tuple(dict.fromkeys(proof.folders)))


def _unproved(command: str, why: str) -> CommandAnalysis:
    """The answer where the text does not tell all that is written."""
    found = danger_in(command)
    remit = _remit_words(command)
    if found is not None:
        return CommandAnalysis("dangerous", (found.reason,), remit=remit, lasting=found.lasting, barred=found.barred)
    return CommandAnalysis("unknown", (why,), remit=remit)


def _whole(writes: tuple[Write, ...]) -> tuple[str, ...]:
    """The places of which everything is written: not by a formatter, which keeps all but the form."""
    return tuple(write.path for write in writes if write.below and not (write.edits and write.maybe))


def _plain_text(command: str) -> str:
    """`command`, when it can be parsed at all; raises Refused."""
    if len(command) > LONGEST:
        raise Refused(f"the command is longer than {LONGEST} bytes")
    if found := CONTROL.search(command):
        raise Refused(f"the command holds the control character {found[0]!r}")
    try:
        size = len(command.encode())
    except UnicodeEncodeError as error:
        raise Refused("the command is not valid Unicode") from error
    if size > LONGEST:
        raise Refused(f"the command is longer than {LONGEST} bytes")
    return command


def _at_home(proof: Proof, repositories: frozenset[str]) -> Proof:
    """`proof`, unless it runs git where settings may not be the user's; raises Refused."""
    strange = [folder for folder in proof.folders if folder not in repositories]
    if "git" in proof.programs and strange:
        raise Refused(f"git in {strange[0]!r} may meet settings that run programs")
    return proof


def _reasons(proof: Proof) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(proof.programs))
    return tuple(f"`{name}` only reads here" for name in names) or ("nothing is run",)


def _written(proof: Proof) -> tuple[str, ...]:
    """The words that name what is written."""
    told = tuple(f"{write.path!r} is written" for write in proof.writes)
    return told or tuple(f"`{name}` writes to no file here" for name in dict.fromkeys(proof.programs))


def _reads(proof: Proof) -> tuple[str, ...]:
    """The files read; after a change of folder only the absolute ones can be named."""
    named = dict.fromkeys(proof.reads)
    return tuple(path for path in named if path and (path.startswith("/") or not proof.folders))


def _remit_words(command: str) -> tuple[str, ...] | None:
    try:
        return _after_remit(simple_command(_plain_text(command)))
    except Refused:
        return None


def _after_remit(words: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if words is None or words[0].rpartition("/")[2] != "remit":
        return None
    return words[1:]
