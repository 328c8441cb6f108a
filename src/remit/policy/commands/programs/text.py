"""Text: programs that print, search, compare, sort, edit and convert text.

Source: the manuals of GNU coreutils 9.1, grep 3.8, diffutils 3.8, sed 4.9, ripgrep 14, jq 1.6, read 2026-11.
"""

from collections.abc import Sequence

from remit.policy.commands.parse.options import (
    OptionRow,
    file_operands,
    harmless_row,
    parse_options,
)
from remit.policy.commands.parse.words import UnprovedCommand, Word
from remit.policy.commands.programs.effects import CommandEffects, Lines
from remit.policy.commands.programs.files import files_below
from remit.policy.commands.programs.row import ANY_NUMBER, Program, StdinRule, WriterRow, Writes, rows
from remit.policy.commands.programs.row_writes import find_row_writes
from remit.policy.commands.programs.sed_awk_perl import read_sed, write_sed

PAGER_OPTIONS = {
    "less": OptionRow("NSRFXnirEeKsw", reads="all"),
    "more": OptionRow("dfps", "n", reads="all"),
}


def read_pager(name: str, words: Sequence[Word]) -> CommandEffects:
    """Refuse `+`, which begins a command of the pager: such commands can run programs."""
    row = PAGER_OPTIONS[name]
    parsed = parse_options(name, row, words)
    if any(word.text.startswith("+") for word in parsed.operands):
        raise UnprovedCommand(f"`{name}` with a command of its own")
    return CommandEffects((name,), file_operands(row, parsed))


XXD_READER = OptionRow("abeEipru", "cglos", operands=1, reads="all")
XXD_WRITER = WriterRow(OptionRow("abeEipru", "cglos", operands=2), "second")


def read_xxd(name: str, words: Sequence[Word]) -> CommandEffects:
    check_single_letters(name, words)
    return CommandEffects((name,), file_operands(XXD_READER, parse_options(name, XXD_READER, words)))


def write_xxd(name: str, words: Sequence[Word]) -> Writes:
    check_single_letters(name, words)
    return find_row_writes(name, XXD_WRITER, words)


def check_single_letters(name: str, words: Sequence[Word]) -> None:
    """Refuse bundles: xxd takes `-ps` as one option, so only single letters are sure."""
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
    """Return the files below the operands for `grep -l`, whose output names the files that match."""
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
