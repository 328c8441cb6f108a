"""Text: programs that print, search, compare, sort, edit and convert text.

Source: the manuals of GNU coreutils 9.1, grep 3.8, diffutils 3.8, sed 4.9, ripgrep 14, jq 1.6, read 2026-11.

Scripts of sed, awk and perl, proved to write no unknown file and to run no program.

A script is read once, from left to right: no script takes long. No proof rests on possessive or atomic regular
expressions (`++`, `(?>…)`): Python 3.11.0 to 3.11.4 match too much with them, and would prove a script refused by other
versions. Source: CPython issues 100061 and 106052, read 2026-11.
"""

import re
from collections.abc import Sequence

from msgspec.structs import replace

from remit.policy.commands.programs.files import files_below
from remit.policy.commands.programs.row import (
    ANY_NUMBER,
    CommandEffects,
    Lines,
    Program,
    StdinRule,
    Write,
    WriterRow,
    Writes,
    find_row_writes,
    rows,
    write_all,
)
from remit.policy.commands.words import OptionRow, UnprovedCommand, Word, file_operands, harmless_row, parse_options

MAX_SCRIPT = 4096
"""Characters of a script; a longer script is refused. Patterns are compiled at their first use, not at the start."""

SED_BLANKS = " \t\n\r\v\f;}"
SED_PATTERN = r"(?:\\[^\n]|[^\\\n\[{d}]|\[\^?(?!\^)(?:{c}[^\]\\\n\[{d}])+\])*"
"""A pattern. A bracket expression with the delimiter in it is refused: some builds of sed end the pattern there."""

SED_CLASS = r"\[:[a-z]+:\]|"
SED_ADDRESS = rf"(?:/{SED_PATTERN.format(d='/', c=SED_CLASS)}/I?|\d+(?:~\d+)?|\$)"
SED_SUBSTITUTE = "|".join(
    rf"\{d}{SED_PATTERN.format(d=d, c='' if d == ':' else SED_CLASS)}\{d}(?:\\[^\n]|[^\\\n{d}])*\{d}"
    for d in "/|,#:@!%"
)
SED_COMMAND = (
    rf"(?:{SED_ADDRESS}[ \t]*(?:,[ \t]*(?:{SED_ADDRESS}|[+~]\d+)[ \t]*)?(?:![ \t]*)?)?"
    rf"(?:s(?:{SED_SUBSTITUTE})[gpiI0-9]*|[{{pdnNDPgGhHx=]|[qQl]\d*|(?P<text>[aic](?:[^\n\\]|\\[\s\S])*\n?\Z))"
)
"""A command without a file: not `w W r R e`, nor a substitution with the flag `w`, `e` or `m`.

Added `text` is everything up to a new line that is not escaped.
"""

PERL_PART = r"(?:\\[^\nN-PpkgEU]|[^\\\n$@({d}]|\((?!\?[?{{])|\$(?=[\d&)|{d}])|\$(?=$)|@(?![\w{{$:]))*"
"""Without `${{…}}`, `@{{…}}` and `(?{{…}})`, which run code, and without variables by name."""

PERL_SUBSTITUTE = "|".join(
    f"s{mark}{PERL_PART.format(d=mark)}{mark}{PERL_PART.format(d=mark)}{mark}[gimsx]*"
    f"|(?:tr|y){mark}{PERL_PART.format(d=mark)}{mark}{PERL_PART.format(d=mark)}{mark}[cds]*"
    for mark in ("/", r"\|", ",", "#", ":", "!", "%")
)
PERL_SCRIPT = rf"\s*(?:{PERL_SUBSTITUTE})(?:\s*;\s*(?:{PERL_SUBSTITUTE}))*\s*;?\s*"
"""Substitutions only, without the flag `e`."""


def is_plain_sed(script: str, *, text_at_end: bool = False) -> bool:
    while len(script) <= MAX_SCRIPT:
        rest = script.lstrip(SED_BLANKS)
        if not rest:
            return True
        command = re.match(SED_COMMAND, rest)
        if command is None or (command["text"] is not None and not text_at_end):
            return False
        script = rest[command.end() :]
    return False


def is_plain_perl(script: str) -> bool:
    return len(script) <= MAX_SCRIPT and re.fullmatch(PERL_SCRIPT, script) is not None


SED_LONG = "quiet silent regexp-extended expression null-data separate"


def read_sed(name: str, words: Sequence[Word]) -> CommandEffects:
    row = OptionRow("nErzsu", "e", f"{SED_LONG} unbuffered", "expression")
    parsed = parse_options(name, row, words)
    given = parsed.values("-e", "--expression")
    scripts = given or parsed.operands[:1]
    if not scripts or not all(word.is_literal and is_plain_sed(word.text) for word in scripts):
        raise UnprovedCommand("a script of `sed` is not literal, or may write or run something")
    operands = parsed.operands if given else parsed.operands[1:]
    return CommandEffects((name,), tuple(word.text for word in operands if word.is_literal and word.text != "-"))


def write_sed(name: str, words: Sequence[Word]) -> tuple[Write, ...]:
    row = OptionRow("nErzs", "e", f"{SED_LONG} in-place follow-symlinks", "expression", attached="i")
    parsed = parse_options(name, row, words, takes_globs=True)
    operands = [word for word in parsed.operands if not word.is_literal or word.text]
    scripts = parsed.values("-e", "--expression")
    if not scripts:
        scripts, operands = tuple(operands[:1]), operands[1:]
    if not scripts or not all(word.is_literal and is_plain_sed(word.text, text_at_end=True) for word in scripts):
        raise UnprovedCommand("a script of `sed` is not literal, or may write or run something")
    if not parsed.has_option("-i", "--in-place"):
        return ()
    follows = parsed.has_option("--follow-symlinks")
    files = write_all(name, operands, follows_links=follows, edits_in_place=True)
    suffix = "".join(word.text for word in parsed.values("-i", "--in-place"))
    return (*files, *backup_copies(files, suffix))


def write_perl(name: str, words: Sequence[Word]) -> tuple[Write, ...]:
    """Return the files of `perl -pi -e 's/…/…/'` with a harmless substitution."""
    scripts: list[Word] = []
    suffix: str | None = None
    rest = list(words)
    while rest and rest[0].is_literal and rest[0].text.startswith("-") and len(rest[0].text) > 1:
        letters = rest.pop(0).text[1:]
        if letters == "-":
            break
        found = re.fullmatch(r"(0[0-7]*|0777)?([plnwW]*)(?:i([\w.~]*)|(e))?", letters)
        if found is None:
            raise UnprovedCommand(f"'-{letters}' of `perl` is not on the tables")
        suffix = found[3] if found[3] is not None else suffix
        if found[4]:
            scripts += rest[:1]
            rest = rest[1:]
    if suffix is None or not scripts or not all(word.is_literal and is_plain_perl(word.text) for word in scripts):
        raise UnprovedCommand("`perl` runs a program")
    files = write_all(name, rest, follows_links=False, edits_in_place=True)
    return (*files, *backup_copies(files, suffix))


def backup_copies(files: Sequence[Write], suffix: str) -> list[Write]:
    if not suffix:
        return []
    if "*" in suffix or "/" in suffix:
        raise UnprovedCommand(f"where copies go by the suffix {suffix!r} is not on the tables")
    return [replace(file, path=file.path + suffix, follows_links=False) for file in files]


AWK_EFFECTS = re.compile(r"system|getline|@|\\\n")


def read_awk(name: str, words: Sequence[Word]) -> CommandEffects:
    """Evaluate awk with a literal program without words for running or writing.

    `>` and `|` write only in `print`, which stands only in an action, after the first brace, and outside parentheses.
    """
    row = OptionRow("", "Fv", reads="rest")
    parsed = parse_options(name, row, words, stop_at_operand=True)
    if not parsed.operands or not parsed.operands[0].is_literal:
        raise UnprovedCommand(f"`{name}` without a literal program")
    program = parsed.operands[0].text
    action = program.partition("{")[2] if "print" in program else ""
    found = AWK_EFFECTS.search(program) or re.search(r"[>|]", without_comparisons(action))
    if found:
        raise UnprovedCommand(f"{found[0]!r} in a program of `{name}` may run or write something")
    if not all(word.is_literal for word in parsed.values("-v", "-F")):
        raise UnprovedCommand(f"`{name}` with a value that is not literal")
    if any(word.may_be_option for word in parsed.operands[1:]):
        raise UnprovedCommand(f"a word of `{name}` may become any option")
    return CommandEffects((name,), file_operands(row, parsed))


AWK_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
AWK_GROUP = re.compile(r"\([^()|]*\)")


def without_comparisons(action: str) -> str:
    left = action.replace("||", "")
    if "/" in left or "#" in left:
        return left
    left = AWK_STRING.sub("", left)
    while '"' not in left and (shorter := AWK_GROUP.sub("", left)) != left:
        left = shorter
    return left


PAGER_OPTIONS = {"less": OptionRow("NSRFXnirEeKsw", reads="all"), "more": OptionRow("dfps", "n", reads="all")}


def read_pager(name: str, words: Sequence[Word]) -> CommandEffects:
    row = PAGER_OPTIONS[name]
    parsed = parse_options(name, row, words)
    if any(word.text.startswith("+") for word in parsed.operands):
        raise UnprovedCommand(f"`{name}` with a command of its own")
    return CommandEffects((name,), file_operands(row, parsed))


BAT = OptionRow("pnAduPSf", "lrHm", "plain number show-all diff force-colorization no-config chop-long-lines "
    "list-themes list-languages no-lessopen", "language line-range highlight-line style color theme paging wrap tabs "
    "file-name map-syntax terminal-width decorations nonprintable-notation", reads="all")  # fmt: skip


def read_bat(name: str, words: Sequence[Word]) -> CommandEffects:
    parsed = parse_options(name, BAT, words)
    if parsed.operands[:1] == (Word("cache"),) or any(word.text != "never" for word in parsed.values("--paging")):
        raise UnprovedCommand(f"`{name}` with a pager, or with its cache")
    return CommandEffects((name,), file_operands(BAT, parsed))


XXD_READER = OptionRow("abeEipru", "cglos", operands=1, reads="all")
XXD_WRITER = WriterRow(OptionRow("abeEipru", "cglos", operands=2), "second")


def read_xxd(name: str, words: Sequence[Word]) -> CommandEffects:
    check_single_letters(name, words)
    return CommandEffects((name,), file_operands(XXD_READER, parse_options(name, XXD_READER, words)))


def write_xxd(name: str, words: Sequence[Word]) -> Writes:
    check_single_letters(name, words)
    return find_row_writes(name, XXD_WRITER, words)


def check_single_letters(name: str, words: Sequence[Word]) -> None:
    if any(word.text.startswith("-") and len(word.text) > 2 for word in words):
        raise UnprovedCommand(f"`{name}` with an option of several letters")


SEARCH = harmless_row("ABCefmd", "rest", "regexp file after-context before-context context max-count include exclude")

RG = OptionRow(
    "ilLnNcvwxsSFPUoHIhuq0pa.",
    "efgtTABCmMjrd",
    "case-sensitive color column count count-matches files files-with-matches files-without-match fixed-strings "
    "follow glob heading hidden iglob ignore-case invert-match json line-number line-regexp max-columns max-count "
    "max-depth multiline multiline-dotall no-config no-filename no-heading no-ignore no-ignore-vcs no-line-number "
    "no-messages null only-matching pcre2 pretty quiet regexp replace smart-case sort sortr stats text threads trim "
    "type type-list type-not unrestricted vimgrep with-filename word-regexp context after-context before-context",
    "glob iglob type type-not sort sortr max-count max-depth context after-context before-context max-columns threads "
    "replace regexp color",
    reads="rest",
)


def list_grep(name: str, words: Sequence[Word]) -> Lines:
    parsed = parse_options(name, RG if name == "rg" else SEARCH, words)
    if not parsed.has_option("-l", "-L", "--files-with-matches", "--files-without-match", "--files"):
        return None
    given = parsed.has_option("-e", "-f", "--regexp", "--file", "--files")
    return files_below(parsed.operands if given else parsed.operands[1:])


PAGER = StdinRule(ANY_NUMBER)
"""Pagers read the terminal itself, whatever their input is, and `!` typed into them runs any program."""

EDITOR = StdinRule(ANY_NUMBER, "-es -Es")

PROGRAMS = rows({
    "cat": Program(reads=harmless_row(reads="all"), filters_lines=True, stdin=StdinRule(1)),
    "tac": Program(reads=harmless_row("s", "all"), filters_lines=True),
    "head": Program(reads=harmless_row("nc", "all", "bytes lines"), filters_lines=True),
    "tail": Program(reads=harmless_row("ncs", "all", "bytes lines pid"), filters_lines=True),
    "nl": Program(reads=harmless_row("bdfhilnsvw", "all")),
    "rev wc comm tsort md5sum sha1sum sha224sum sha256sum sha384sum sha512sum "
        "sum": Program(reads=harmless_row(reads="all")),
    "cut": Program(reads=harmless_row("bcdf", "all", "bytes characters delimiter fields output-delimiter")),
    "paste": Program(reads=harmless_row("d", "all")),
    "fold": Program(reads=harmless_row("w", "all")),
    "fmt": Program(reads=harmless_row("wgp", "all")),
    "expand unexpand": Program(reads=harmless_row("t", "all")),
    "column": Program(reads=harmless_row("csoNEHRTlOd", "all")),
    "join": Program(reads=harmless_row("12aejotv", "all")),
    "cmp": Program(reads=harmless_row("inj", "all")),
    "diff": Program(reads=harmless_row("ILUCWxXS", "all", "exclude ignore-matching-lines label unified")),
    "tr numfmt factor": Program(reads=harmless_row()),
    "od": Program(reads=harmless_row("AjNStw", "all")),
    "hexdump hd": Program(reads=harmless_row("cefns", "all")),
    "shasum": Program(reads=harmless_row("a", "all")),
    "b2sum": Program(reads=harmless_row("l", "all")),
    "cksum": Program(reads=harmless_row("al", "all")),
    "grep egrep fgrep": Program(reads=SEARCH, lists=list_grep, filters_lines=True),
    "jq": Program(reads=harmless_row("fL", "rest", "from-file indent tab"), roles="editor"),
    "sort": Program(reads=OptionRow("bcCdfghiMnrRsuVzm", "kSt", "check debug dictionary-order field-separator "
        "general-numeric-sort human-numeric-sort ignore-case ignore-leading-blanks ignore-nonprinting key merge "
        "month-sort numeric-sort parallel random-sort reverse sort stable unique version-sort zero-terminated",
        reads="all"), writes=WriterRow(OptionRow("bcCdfghiMnrRsuVzm", "kSto",
        "dictionary-order general-numeric-sort human-numeric-sort ignore-case ignore-leading-blanks merge numeric-sort "
        "reverse stable unique version-sort zero-terminated", "field-separator key output"), "none",
        outputs="--output -o"), filters_lines=True),
    "shuf": Program(reads=OptionRow("erz", "ni", "echo head-count input-range repeat zero-terminated"),
        writes=WriterRow(OptionRow("erz", "nio", "echo repeat zero-terminated", "head-count input-range output"),
        "none", outputs="--output -o")),
    "uniq": Program(reads=OptionRow("cdDiuz", "fsw", "all-repeated check-chars count group ignore-case repeated "
        "skip-chars skip-fields unique zero-terminated", operands=1, reads="all"),
        writes=WriterRow(OptionRow("cdDiuz", "fsw", "count ignore-case repeated unique zero-terminated", operands=2),
        "second"), filters_lines=True),
    "base64": Program(reads=OptionRow("di", "w", "decode ignore-garbage wrap", reads="all")),
    "xxd": Program(reads=read_xxd, writes=write_xxd),
    "iconv": Program(reads=OptionRow("cl", "ft", "from-code list to-code", reads="all"),
        writes=WriterRow(OptionRow("c", "fto", "", "from-code output to-code"), "none", outputs="--output -o")),
    "strings": Program(reads=OptionRow("a", "nte", "all bytes encoding radix", reads="all")),
    "bat batcat": Program(reads=read_bat),
    "less more": Program(reads=read_pager, stdin=PAGER),
    "rg": Program(reads=RG, lists=list_grep),
    "ag": Program(reads=OptionRow("ilLncvwsSQoHUua0", "GABCm", "case-sensitive count files-with-matches hidden "
        "ignore-case invert-match literal nobreak nocolor nogroup noheading numbers smart-case word-regexp",
        reads="rest")),
    "yq": Program(reads=OptionRow("recyPMCN", "", "compact-output exit-status raw-output yaml-output", reads="rest"),
        writes=WriterRow(OptionRow("iyrPjNeI", "", "in-place inplace yaml-output"), "rest",
        required="--in-place --inplace -i", follows_links=False, edits_in_place=True), roles="editor"),
    "sed": Program(reads=read_sed, writes=write_sed, version_options="--version", roles="editor"),
    "tee": Program(writes=WriterRow(OptionRow("aip", "", "append ignore-interrupts")), stdin=StdinRule(ANY_NUMBER)),
    "sponge": Program(writes=WriterRow(OptionRow("a"))),
    "dos2unix unix2dos": Program(writes=WriterRow(OptionRow("qkfo", "", "force keepdate quiet"), follows_links=False,
        edits_in_place=True)),
    "split": Program(writes=WriterRow(OptionRow("dxev", "lbCna", "hex-suffixes numeric-suffixes verbose",
        "bytes lines number suffix-length", operands=2), "second", suffix="aa")),
    "csplit": Program(writes=WriterRow(OptionRow("ksqz", "fbn", "", "digits prefix"), "none", outputs="--prefix -f",
        suffix="00")),
    "gsed": Program(writes=write_sed),
    "ed ex nano nvim vi vim": Program(stdin=EDITOR, roles="editor"),
    "emacs": Program(stdin=StdinRule(ANY_NUMBER, "-batch --batch"), roles="editor"),
    "patch": Program(stdin=StdinRule(ANY_NUMBER, "i --input"), roles="editor"),
    "view pico red": Program(stdin=EDITOR),
    "most man info": Program(stdin=PAGER),
    "apply_patch applypatch": Program(stdin=StdinRule(1)),
})  # fmt: skip
