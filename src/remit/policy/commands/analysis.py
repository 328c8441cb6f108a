"""The analysis of a shell command: effects and output files, as far as the text proves them.

A mentioned file is no output: a person may save the file of `pytest tests/test_x.py` meanwhile. Outputs are the targets
of redirects, the written files of programs in the table, the values of options such as `--output`, and the files opened
for writing by a script in the text. A folder is no output: the folder may hold files of people.
"""

import posixpath
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.policy.commands.dangers import Danger, find_danger, find_unseen_program
from remit.policy.commands.parsed_command import parse_command, unmask_text
from remit.policy.commands.programs.row import Write
from remit.policy.commands.programs.table import is_pure
from remit.policy.commands.statements import literal_simple_command, prove_command
from remit.policy.commands.words import UnprovedCommand, node_source, read_word, word_set

if TYPE_CHECKING:
    from tree_sitter import Node


CommandOutcome: TypeAlias = Literal["read_only", "literal_writes", "dangerous", "unknown"]

MAX_BYTES = 64 * 1024  # Bytes of a command; a longer command is unknown without being parsed

MAX_CACHED = 32
"""Cached analyses: the gate, the classification and several checks ask about each call, before and after the tool."""

LOWER_FOLDER = re.compile(r"\.|(?![/~])(?!\.\./)(?!\.\.$).+", re.DOTALL)
"""A folder below the one that a command starts in; the text is normal, so that `..` can only lead."""

CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


class CommandAnalysis(Struct, frozen=True):
    """The effects of a command. `unknown` is no objection: the effects are not in the text."""

    outcome: CommandOutcome
    reasons: tuple[str, ...] = ()  # the deciding words
    reads: tuple[str, ...] = ()  # literal file operands of a read-only command, unquoted
    remit_words: tuple[str, ...] | None = None  # behind `remit` in a command of no other program
    writes: tuple[Write, ...] | None = None  # all written places, None if unknown
    entered_folders: tuple[str, ...] = ()  # the writes hold if these exist
    is_irreversible: bool = False  # the damage of a dangerous command cannot be restored
    is_forbidden: bool = False  # it changes files that govern agents
    is_restorable: bool = False  # a snapshot of the working tree brings back what a dangerous command takes away
    git_verbs: tuple[str, ...] = ()  # of an unknown command of known programs: the writing git commands
    git_folders: tuple[
        str, ...
    ] = ()  # and the folders entered; of a proved one, folders that must be of this repository
    stores_rewritten: bool = False  # a file gets what a program made of other text: the content is not in the text
    is_repeatable: bool = False  # and filters, formatters and what carries text between them do all of it
    only_lays_out: bool = False  # formatters alone write files: each keeps its words


@lru_cache(MAX_CACHED)
def analyse(command: str, repositories: frozenset[str] = frozenset()) -> CommandAnalysis:
    """Return the effects of `command`, run by bash. Never raises; pure.

    `repositories` are absolute folders with git settings known to be the user's own: after `cd` to a repository in the
    list, or with `git -C`, a git command stays provable, and in a folder below too, if the caller finds the folder in
    the same repository. Git in any unlisted folder is unknown: an agent may have made the repository, with programs in
    the settings.
    """
    # 1. The text must be readable, and all its syntax known.
    remit_words: tuple[str, ...] | None = None
    try:
        check_text(command)
        words = literal_simple_command(command)
        if words is not None and words[0].rpartition("/")[2] == "remit":
            remit_words = words[1:]
        proof = prove_command(command)
    except UnprovedCommand as error:
        return analyse_unproved(command, str(error), remit_words)

    # 2. A formatter whose settings, or whose place, may hold any program proves nothing; but it says what it is for.
    only_lays_out = bool(proof.writes) and all(write.only_layout for write in proof.writes)
    is_repeatable = proof.stores_rewritten and all(map(is_pure, proof.programs))
    if proof.unproved_formatters:
        analysis = analyse_unproved(command, proof.unproved_formatters[0], remit_words)
        is_repeatable = is_repeatable and analysis.outcome == "unknown"
        entered = tuple(dict.fromkeys(proof.entered_folders))
        known = {"is_repeatable": is_repeatable, "only_lays_out": only_lays_out, "entered_folders": entered}
        return replace(analysis, **known)

    # 3. git runs only where its settings are the user's, and every command shows its changes.
    git_folders = tuple(dict.fromkeys(proof.git_folders)) if "git" in proof.programs else ()
    below = tuple(folder for folder in git_folders if LOWER_FOLDER.fullmatch(folder) and folder not in repositories)
    strange = [folder for folder in git_folders if folder not in repositories and folder not in below]
    if strange or proof.undetermined:
        why = f"git in {strange[0]!r} may meet settings that run programs" if strange else proof.undetermined[0]
        analysis = analyse_unproved(command, why, remit_words)
        if not proof.undetermined or any(".git" in write.path or write.glob for write in proof.writes):
            return analysis
        verbs, folders = tuple(dict.fromkeys(proof.git_verbs)), tuple(dict.fromkeys(proof.git_folders))
        return replace(analysis, git_verbs=verbs, git_folders=folders)

    # 4. All effects are known.
    programs = tuple(dict.fromkeys(proof.programs))
    if not proof.changes_state and not proof.writes:
        reasons = tuple(f"`{name}` only reads here" for name in programs) or ("nothing is run",)
        # After a change of folder only absolute paths are known.
        reads = (
            path for path in dict.fromkeys(proof.reads) if path.startswith("/") or (path and not proof.git_folders)
        )
        return CommandAnalysis("read_only", reasons, tuple(reads), remit_words, (), git_folders=below)
    # A formatter keeps everything but the form, so that it writes no place entirely.
    written_whole = tuple(w.path for w in proof.writes if w.is_recursive and not (w.edits_in_place and w.is_optional))
    entered = tuple(dict.fromkeys(proof.entered_folders))
    if danger := find_danger(command, written_whole):
        return make_dangerous(danger, remit_words, proof.writes, entered)
    if unseen := find_unseen_program(command, proof.programs):
        return CommandAnalysis("unknown", (f"`{unseen}` stands where dangers are not looked for",), (), remit_words)
    reasons = tuple(f"{write.path!r} is written" for write in proof.writes)
    reasons = reasons or tuple(f"`{name}` writes to no file here" for name in programs)
    return CommandAnalysis(
        "literal_writes",
        reasons,
        remit_words=remit_words,
        writes=proof.writes,
        entered_folders=entered,
        stores_rewritten=proof.stores_rewritten,
        is_repeatable=is_repeatable,
        only_lays_out=only_lays_out,
        git_folders=below,
    )


def analyse_unproved(command: str, why: str, remit_words: tuple[str, ...] | None) -> CommandAnalysis:
    if danger := find_danger(command):
        return make_dangerous(danger, remit_words)
    return CommandAnalysis("unknown", (unmask_text(why),), (), remit_words)


def make_dangerous(
    danger: Danger,
    remit_words: tuple[str, ...] | None,
    writes: tuple[Write, ...] | None = None,
    entered: tuple[str, ...] = (),
) -> CommandAnalysis:
    return CommandAnalysis(
        "dangerous",
        (danger.reason,),
        remit_words=remit_words,
        writes=writes,
        entered_folders=entered,
        is_irreversible=danger.is_irreversible,
        is_forbidden=danger.is_forbidden,
        is_restorable=danger.is_restorable,
    )


def check_text(command: str) -> None:
    if len(command) > MAX_BYTES or len(command.encode("utf-8", "replace")) > MAX_BYTES:
        raise UnprovedCommand(f"the command is longer than {MAX_BYTES} bytes")
    if found := CONTROL_CHARACTER.search(command):
        raise UnprovedCommand(f"the command holds the control character {found[0]!r}")


OutputKind: TypeAlias = Literal["whole", "edited", "added"]
"""The change of the file: a new content, new parts of lines, or a change possible for any writer (append, reformat, set
rights)."""

MAX_CHARS = 1 << 18
"""Characters of a command; a longer one names no output. Nothing is decided here, and a shell takes half as much."""

WHOLE: OutputKind = "whole"
REDIRECTS: dict[str, OutputKind] = {">": WHOLE, ">|": WHOLE, "&>": WHOLE, ">>": "added", "&>>": "added"}
WITHOUT_CONTENT = word_set("rm unlink rmdir shred truncate touch git mv")
"""Programs that leave no content of their own: they remove files, or bring content that others wrote."""

EDITING_PROGRAMS = word_set("sed perl")
NESTED_STATEMENTS = frozenset({"program", "list"})

CHANGE_FOLDER = re.compile(r"cd[ \t]+(['\"]?)([\w./@+-]+)\1")
PROGRAM_NAME = re.compile(
    r"(?:\w+=\S*[ \t]+)*(?:(?:uv|poetry|pipenv|rye|pdm|hatch)[ \t]+run[ \t]+)?(?:[\w./~-]*/)?(\w+)"
)
OUTPUT_OPTION = re.compile(r"(?<!\S)--out(?:put|file|-file|put-file)?[= ](['\"]?)([\w./@+-]{1,400})\1(?!\S)")

HERE_DOCUMENT = re.compile(r"<<-?[ \t]*(['\"]?)(\w+)\1")
INLINE_SCRIPT = re.compile(r"(?<!\S)(?:-[a-zA-Z]*[ceE]|--eval)(?!\w)|<<")
INTERPRETER = re.compile(r"(?:python[\d.]*|node|bun|deno|ruby)$")
_PLACE = (
    r"(?:(?:pathlib\.)?Path\(\s*)?(?:(?P<q>['\"])(?P<path>[^'\"\n]{1,400})(?P=q)|(?P<name>[a-zA-Z_]\w{0,60}))\s*\)?"
)
PATH_ASSIGNMENT = re.compile(
    r"(?<![\w.])([a-zA-Z_]\w{0,60})\s*=\s*(?:(?:pathlib\.)?Path\(\s*)?(['\"])([^'\"\n]{1,400})\2\s*\)?\s*(?:[;\n]|$)"
)
ANY_ASSIGNMENT = re.compile(r"(?<![\w.])([a-zA-Z_]\w{0,60})\s*(?:=(?!=)|\bin\b)")
WRITING_CALLS = (
    re.compile(rf"(?<![\w.])open\(\s*{_PLACE}\s*,\s*(?:mode\s*=\s*)?['\"](?:[wx][bt+]*|[br]*\+[br]*)['\"]"),
    re.compile(rf"(?<![\w.]){_PLACE}\.write_(?:text|bytes)\("),
    re.compile(rf"(?<![\w.]){_PLACE}\.open\(\s*(?:mode\s*=\s*)?['\"][wx]"),
    re.compile(rf"(?:writeFile|writeFileSync|writeTextFile|Bun\.write|File\.write)\(\s*{_PLACE}\s*,"),
    re.compile(rf"File\.open\(\s*{_PLACE}\s*,\s*['\"]w"),
)
APPENDING_CALLS = (
    re.compile(rf"(?<![\w.])open\(\s*{_PLACE}\s*,\s*(?:mode\s*=\s*)?['\"]a[bt]*['\"]"),
    re.compile(rf"(?<![\w.]){_PLACE}\.open\(\s*(?:mode\s*=\s*)?['\"]a[bt]*['\"]"),
    re.compile(rf"(?:appendFile|appendFileSync)\(\s*{_PLACE}\s*,"),
)
"""Calls by which scripts in a text write a named file, and append to one. Source: the manuals of Python 3.14,
Node.js 24, Deno 2, Bun 1 and Ruby 3.4, read 2026-11."""

READING_CALLS = re.compile(
    r"\.read(?:_text|_bytes|lines?)?\(|\b(?:readFile|readFileSync|readTextFile)\(|\bFile\.(?:read|foreach)\b"
)
"""Calls that read a file, perhaps the file that is written afterwards: parts of the content may stay."""


class CommandOutput(Struct, frozen=True):
    """An output file, relative to the folder that the command starts in, or absolute."""

    path: str
    how: OutputKind


NamedOutput: TypeAlias = tuple[str, OutputKind]  # An output as its statement names it


def find_outputs(command: str) -> tuple[CommandOutput, ...]:
    """Return the named outputs, each once, `whole` before other kinds. Never raises; pure."""
    if len(command) > MAX_CHARS:
        return ()
    try:
        root = parse_command(command).tree
    except UnprovedCommand:
        return ()
    found: dict[str, OutputKind] = {}
    folder = "."
    for node, text in split_statements(root):
        if text.startswith(("cd ", "cd\t", "pushd", "popd")):
            target = CHANGE_FOLDER.fullmatch(text.strip())
            if target is None:
                break  # from here on the folder is unknown
            folder = posixpath.join(folder, target[2])
            continue
        options: list[NamedOutput] = [(option[2], WHOLE) for option in OUTPUT_OPTION.finditer(text.partition("<<")[0])]
        for name, how in (*redirect_outputs(node), *proved_outputs(text), *options, *script_outputs(text)):
            path = posixpath.join(folder, name)
            if found.get(path) != WHOLE:
                found[path] = how
    return tuple(CommandOutput(path, how) for path, how in found.items())


def split_statements(node: "Node") -> Iterator[tuple["Node", str]]:
    for child in node.children:
        body = child.children[0] if child.type == "redirected_statement" else None
        if child.type in NESTED_STATEMENTS:
            yield from split_statements(child)
        elif body is not None and body.type in NESTED_STATEMENTS:
            yield from split_statements(body)
            yield child, ""
        elif child.is_named:
            yield child, unmask_text(node_source(child))


def redirect_outputs(node: "Node") -> Iterator[NamedOutput]:
    own = node.children if node.type == "redirected_statement" else []
    on_document_line = [inner for redirect in own if redirect.type == "heredoc_redirect" for inner in redirect.children]
    for child in (*own, *on_document_line):
        parts = [part for part in child.children if part.type != "file_descriptor"]
        if child.type != "file_redirect" or len(parts) != 2 or parts[0].type not in REDIRECTS:
            continue
        try:
            word = read_word(parts[1])
        except UnprovedCommand:
            continue
        if word.is_literal and word.text and not word.text.startswith("/dev/"):
            yield unmask_text(word.text), REDIRECTS[parts[0].type]


def proved_outputs(text: str) -> Iterator[NamedOutput]:
    head = PROGRAM_NAME.match(text)
    program = head[1] if head else ""
    if program in WITHOUT_CONTENT:
        return
    if len(text) > MAX_BYTES:  # without the lines of its here-document it may be short enough to be proved
        line, _, rest = text.partition("\n")
        found = HERE_DOCUMENT.search(line)
        text = f"{line}\n{found[2]}" if found and rest.rstrip("\n").endswith(f"\n{found[2]}") else text
    for write in analyse(text).writes or ():
        if not (write.glob or write.adds_names or write.makes_folder):
            edited: OutputKind = "edited" if program in EDITING_PROGRAMS else "added"
            yield write.path, edited if write.edits_in_place else WHOLE


def script_outputs(text: str) -> Iterator[NamedOutput]:
    head = PROGRAM_NAME.match(text)
    if head is None or not INTERPRETER.match(head[1]) or not INLINE_SCRIPT.search(text):
        return
    times = Counter(found[1] for found in ANY_ASSIGNMENT.finditer(text))
    paths = {found[1]: found[3] for found in PATH_ASSIGNMENT.finditer(text) if times[found[1]] == 1}
    written: OutputKind = "edited" if READING_CALLS.search(text) else WHOLE
    kinds: tuple[tuple[tuple[re.Pattern[str], ...], OutputKind], ...]
    kinds = ((APPENDING_CALLS, "added"), (WRITING_CALLS, written))
    for calls, how in kinds:
        for found in (found for call in calls for found in call.finditer(text)):
            if path := found["path"] or paths.get(found["name"] or ""):
                yield path, how
