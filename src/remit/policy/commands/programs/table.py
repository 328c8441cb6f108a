"""The table of shell programs, a row each in the module of the family; and the effects of a command by its row.

Left out on purpose, since the repository or a file names the programs to run: `make`, package managers (also `npm ls`,
with logs at the place named in a project's `.npmrc`, and `cargo metadata`, with the project's compiler), `patch` and
`git apply` (the names stand in the patch), `rename`, `vim`, `ed`, `cargo`, `go`, `gawk -i` (library in the present
folder), `man` and `nm` (loads plugins).
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Literal, TypeAlias

from msgspec.structs import replace

from remit.policy.commands.programs import (
    archives,
    compilers_formatters,
    converters,
    files,
    git,
    interpreters,
    network,
    remote_services,
    shell,
    system,
    text,
)
from remit.policy.commands.programs.row import (
    CommandEffects,
    InnerCommand,
    Lines,
    Program,
    Write,
    find_row_writes,
    is_harmless_device,
)
from remit.policy.commands.words import OptionRow, UnprovedCommand, Word, file_operands, parse_options, word_set

FAMILIES = (
    shell.PROGRAMS,
    files.PROGRAMS,
    text.PROGRAMS,
    archives.PROGRAMS,
    compilers_formatters.PROGRAMS,
    interpreters.PROGRAMS,
    converters.PROGRAMS,
    git.PROGRAMS,
    network.PROGRAMS,
    remote_services.PROGRAMS,
    system.PROGRAMS,
)

PROGRAMS: Mapping[str, Program] = {name: program for family in FAMILIES for name, program in family.items()}

Rewriting: TypeAlias = Literal["text", "layout"]
"""What a program makes of the text that it reads: another text, or the same text in another layout."""

FILTERS = word_set(
    "awk gawk mawk sed gsed perl tr sort uniq cut paste join comm column fold fmt expand unexpand nl tac rev "
    "jq yq iconv dos2unix unix2dos isort autopep8 autoflake pyupgrade docformatter goimports"
)
"""Programs whose output is a function of the text that they read: it does not stand in the text of the command."""

FORMATTERS = word_set(
    "black yapf gofmt gofumpt rustfmt clang-format prettier shfmt stylua nixfmt ormolu fourmolu ocamlformat tidy"
)
VERBS: dict[str, dict[str, Rewriting]] = {
    "ruff": {"format": "layout", "check": "text"},
    "biome": {"format": "layout", "check": "text"},
    "deno": {"fmt": "layout"},
    "zig": {"fmt": "layout"},
    "dart": {"format": "layout"},
    "taplo": {"fmt": "layout", "format": "layout"},
    "dprint": {"fmt": "layout"},
    "cargo": {"fmt": "layout"},
    "go": {"fmt": "layout"},
    "terraform": {"fmt": "layout"},
    "tofu": {"fmt": "layout"},
}
"""Programs of which only some uses rewrite text, by the first word."""

RUNNERS = re.compile(
    r"(?:(?:npx|pnpx|bunx|uvx)(?: --?y(?:es)?| --no-install)?|(?:pnpm|npm) exec(?: --)?|pnpm dlx|bun x"
    r"|yarn(?: run| exec)?|(?:uv|poetry|pipenv|pdm|hatch|rye) run|python3? -m) (?!-)"
)
"""Words before a program that a project, or a registry, may have put there: what it does is not known."""

PLUMBING = word_set(
    "cat head tail echo printf grep egrep fgrep rg find xargs tee sponge wc ls mv cp rm mkdir touch cd pushd popd set "
    "test [ true false : basename dirname diff cmp"
)
"""Programs that carry text and files between filters, and do nothing else."""

UNLISTED = Program()  # The row of a program that is not in the table


def find_program(name: str) -> Program:
    return PROGRAMS.get(name, UNLISTED)


def find_rewriting(program: str, verb: str) -> Rewriting | None:
    """Return the effect of a program on the text read; None if the program is neither a filter nor a formatter."""
    if program in FILTERS:
        return "text"
    return "layout" if program in FORMATTERS else VERBS.get(program, {}).get(verb)


def is_pure(program: str) -> bool:
    """Return True if a proved use of the program only makes files of files: it gives the same again."""
    return program in PLUMBING or program in FILTERS or program in FORMATTERS or program in VERBS


def has_role(name: str, *roles: str) -> bool:
    return not word_set(find_program(name).roles).isdisjoint(roles)


SYSTEM_FOLDER = re.compile(r"^(?:/usr)?/bin/")
MAX_WRAPPERS = 8  # Programs that run a program that runs a program …

FILTER_OPTION = re.compile(r"-(?:[viEFwxurzn0-9]+|n)")


def evaluate_command(words: Sequence[Word], input_lines: Lines = None) -> CommandEffects:
    """Return the effects of a simple command; of an unproved formatter, the formatter's purpose. Raises
    UnprovedCommand.
    """
    try:
        return evaluate_proved(words, input_lines)
    except UnprovedCommand as error:
        if not is_formatter(words):
            raise
        writes = (Write(".", is_recursive=True, edits_in_place=True, is_optional=True, only_layout=True),)
        return CommandEffects((), changes_state=True, writes=writes, rewrites=True, unproved_formatter=str(error))


def is_formatter(words: Sequence[Word]) -> bool:
    text = " ".join(word.text if word.is_literal else "-" for word in words[:6])
    name, _, rest = text[found.end() if (found := RUNNERS.match(f"{text} ")) else 0 :].partition(" ")
    return find_rewriting(name, rest.partition(" ")[0]) == "layout"


def evaluate_proved(words: Sequence[Word], input_lines: Lines = None, depth: int = 0) -> CommandEffects:
    """Return the effects of one simple command, which may be run by `depth` wrappers. Raises UnprovedCommand."""
    if not words or not words[0].is_literal:
        raise UnprovedCommand("the name of a command is not literal")
    if depth > MAX_WRAPPERS:
        raise UnprovedCommand("too many programs run each other")
    name, rest = SYSTEM_FOLDER.sub("", words[0].text), words[1:]
    program = find_program(name)
    try:
        effects = evaluate_reader(name, program, rest, input_lines, depth)
    except UnprovedCommand:
        if not program.is_writer:
            raise
        effects = evaluate_writer(name, program, rest, depth)
    effects = drop_device_writes(name, rest, effects)
    if rewriting := find_rewriting(name, rest[0].text if rest else ""):
        writes = tuple(replace(write, only_layout=rewriting == "layout") for write in effects.writes)
        effects = replace(effects, rewrites=True, writes=writes)
    if effects.output_lines is not None:
        return effects
    # The lines of the output, for what `xargs` and `while read` make of them.
    if input_lines is not None and program.filters_lines:
        return replace(effects, output_lines=filter_lines(name, rest, input_lines))
    with suppress(UnprovedCommand):
        return replace(effects, output_lines=program.lists(name, rest) if program.lists is not None else None)
    return effects


OPENING_PROGRAMS = word_set("tee dd cp curl wget sort shuf uniq iconv xxd tar tree find git")
"""Programs that open the file of their output and write into it; others may put a new file in its place."""

PLAIN_COPY_OPTION = re.compile(r"-[fivLnu]+|--force|--verbose|--")
"""Options of cp that give the target neither the rights nor the kind of the source."""


def drop_device_writes(name: str, words: Sequence[Word], effects: CommandEffects) -> CommandEffects:
    """Return the effects without writes into harmless devices.

    Raises UnprovedCommand for a program able to replace the device, or to change the rights.
    """
    devices = [write for write in effects.writes if not write.glob and is_harmless_device(write.path)]
    if not devices:
        return effects
    options = [word.text for word in words if word.text.startswith("-") and word.text != "-"]
    is_plain = name != "cp" or all(map(PLAIN_COPY_OPTION.fullmatch, options))
    opens = name in OPENING_PROGRAMS and is_plain
    if not opens or not all(write.follows_links and not write.is_recursive for write in devices):
        raise UnprovedCommand(f"`{name}` may put a file in the place of {devices[0].path}")
    left = tuple(write for write in effects.writes if write not in devices)
    # What is fetched or sent stays more than reading, wherever the answer goes.
    changes = effects.changes_state and (bool(left) or has_role(name, "fetcher", "sender"))
    return replace(effects, writes=left, changes_state=changes)


def evaluate_reader(
    name: str, program: Program, words: Sequence[Word], input_lines: Lines, depth: int
) -> CommandEffects:
    """Return the effects of a reading program, or of a wrapper. Raises UnprovedCommand."""
    if len(words) == 1 and words[0].is_literal and words[0].text in word_set(program.version_options):
        return CommandEffects((name,))
    if program.runs is None:
        if isinstance(program.reads, OptionRow):
            return CommandEffects((name,), file_operands(program.reads, parse_options(name, program.reads, words)))
        if program.reads is None:
            raise UnprovedCommand(f"`{name}` is not on the read-only table")
        return program.reads(name, words)
    if isinstance(program.runs, OptionRow):
        inner = InnerCommand(parse_options(name, program.runs, words, stop_at_operand=True).operands, input_lines)
    else:
        inner = program.runs(words, input_lines)
    if not inner.words:
        return CommandEffects((name,))
    effects = evaluate_proved(inner.words, inner.lines, depth + 1)
    if effects.changes_folder and name not in ("command", "builtin"):
        raise UnprovedCommand(f"`{name}` with a command of the shell's own")
    changes, writes = effects.changes_state or bool(inner.writes), (*inner.writes, *effects.writes)
    return replace(effects, programs=(name, *effects.programs), changes_state=changes, writes=writes)


def evaluate_writer(name: str, program: Program, words: Sequence[Word], depth: int) -> CommandEffects:
    """Return the effects of a program that writes. Raises UnprovedCommand."""
    if program.effects is not None:
        return program.effects(name, words, lambda inner: evaluate_proved(inner, None, depth + 1))
    if program.verbs:
        verb = words[0].text if words and words[0].is_literal else ""
        writer = program.verbs.get(verb)
        if writer is None:
            raise UnprovedCommand(f"what `{name} {verb}` does is not on the tables")
        # Without files the program takes those of its settings, unless its default is the present folder.
        if not writer.defaults_to_folder and all(word.may_be_option for word in words[1:]):
            raise UnprovedCommand(f"which files `{name} {verb}` takes is not in its words")
        writes = find_row_writes(f"{name} {verb}", writer, words[1:])
    elif program.writes is None:
        raise UnprovedCommand(f"`{name}` is not on the tables")
    elif callable(program.writes):
        writes = program.writes(name, words)
    else:
        writes = find_row_writes(name, program.writes, words)
    return CommandEffects((name,), changes_state=True, writes=writes)


def filter_lines(name: str, words: Sequence[Word], input_lines: tuple[Word, ...]) -> Lines:
    options = [word for word in words if word.text.startswith("-") and word.text != "-"]
    operands = [word for word in words if word not in options]
    patterns = 1 if name.endswith("grep") or name in ("head", "tail") else 0
    numbered = name.endswith("grep") and any("n" in option.text for option in options)
    if numbered or len(operands) > patterns or not all(FILTER_OPTION.fullmatch(option.text) for option in options):
        return None
    return tuple(replace(word, is_optional=True) for word in input_lines)
