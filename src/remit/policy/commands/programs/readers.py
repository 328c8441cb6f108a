"""The read-only table: one row a command. What is not here is not proved.

A row with `any_option` is a command that cannot write, whatever it is given; all other rows list what
is known to be harmless. Left out on purpose, though often called read-only: `man` and pagers with
commands, `make -n` (`$(shell …)` runs), `tee`, `dd`, `nm` (loads plugins), `cargo`, `go` and `yarn`
(even `--version` may fetch, or run what the repository names), `ss` (`-K` kills), `nohup` (nohup.out).

Source: the manuals of GNU coreutils 9.1, findutils 4.9, grep 3.8, diffutils 3.8, ripgrep 14, jq 1.6,
procps 4.0, util-linux 2.38, read 2026-11.
"""

from remit.policy.commands.parse.options import OptionRow, ReadOperands, word_set


def harmless_row(valued: str = "", reads: ReadOperands = "none", long_valued: str = "") -> OptionRow:
    """A command that cannot write; the options with values are listed only to find its files."""
    return OptionRow(
        valued=valued, long_valued=word_set(long_valued), allows_any=True, read_operands=reads, takes_number=True
    )


SEARCH_OPTIONS = harmless_row(
    "ABCefmd", "rest", "regexp file after-context before-context context max-count include exclude"
)

READERS: dict[str, OptionRow] = {
    # files to standard output
    "cat": harmless_row(reads="all"),
    "tac": harmless_row("s", "all"),
    "head": harmless_row("nc", "all", "lines bytes"),
    "tail": harmless_row("ncs", "all", "lines bytes pid"),
    "nl": harmless_row("bdfhilnsvw", "all"),
    "rev": harmless_row(reads="all"),
    "wc": harmless_row(reads="all"),
    "cut": harmless_row("bcdf", "all", "bytes characters delimiter fields output-delimiter"),
    "paste": harmless_row("d", "all"),
    "fold": harmless_row("w", "all"),
    "fmt": harmless_row("wgp", "all"),
    "expand": harmless_row("t", "all"),
    "unexpand": harmless_row("t", "all"),
    "column": harmless_row("csoNEHRTlOd", "all"),
    "join": harmless_row("12aejotv", "all"),
    "comm": harmless_row(reads="all"),
    "cmp": harmless_row("inj", "all"),
    "diff": harmless_row("ILUCWxXS", "all", "label exclude ignore-matching-lines unified"),
    "tr": harmless_row(),
    "numfmt": harmless_row(),
    "tsort": harmless_row(reads="all"),
    "od": harmless_row("AjNStw", "all"),
    "hexdump": harmless_row("cefns", "all"),
    "hd": harmless_row("cefns", "all"),
    "md5sum": harmless_row(reads="all"),
    "sha1sum": harmless_row(reads="all"),
    "sha224sum": harmless_row(reads="all"),
    "sha256sum": harmless_row(reads="all"),
    "sha384sum": harmless_row(reads="all"),
    "sha512sum": harmless_row(reads="all"),
    "shasum": harmless_row("a", "all"),
    "b2sum": harmless_row("l", "all"),
    "cksum": harmless_row("al", "all"),
    "sum": harmless_row(reads="all"),
    "grep": SEARCH_OPTIONS,
    "egrep": SEARCH_OPTIONS,
    "fgrep": SEARCH_OPTIONS,
    "jq": harmless_row("fL", "rest", "from-file tab indent"),
    "sort": OptionRow("bcCdfghiMnrRsuVzm", "kSt", long=word_set(
        "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort human-numeric-sort "
        "ignore-nonprinting month-sort numeric-sort random-sort reverse version-sort check merge stable "
        "unique zero-terminated sort key field-separator parallel debug"), read_operands="all"),
    "shuf": OptionRow("erz", "ni", long=word_set("echo repeat zero-terminated head-count input-range")),
    "uniq": OptionRow("cdDiuz", "fsw", long=word_set(
        "count repeated all-repeated group ignore-case unique zero-terminated skip-fields skip-chars "
        "check-chars"), max_operands=1, read_operands="all"),
    "base64": OptionRow("di", "w", long=word_set("decode ignore-garbage wrap"), read_operands="all"),
    "xxd": OptionRow("abeEipru", "cglos", max_operands=1, read_operands="all"),
    "iconv": OptionRow("cl", "ft", long=word_set("from-code to-code list"), read_operands="all"),
    "strings": OptionRow("a", "nte", long=word_set("all bytes radix encoding"), read_operands="all"),
    "less": OptionRow("NSRFXnirEeKsw", read_operands="all"),
    "more": OptionRow("dfps", "n", read_operands="all"),
    "zcat": OptionRow("fq", read_operands="all"),
    "gzip": OptionRow("tlvq", long=word_set("test list verbose quiet"), required=word_set("-t -l --test --list"),
                read_operands="all"),
    "xz": OptionRow("tlvq", long=word_set("test list verbose quiet"), required=word_set("-t -l --test --list"),
              read_operands="all"),
    "bzip2": OptionRow("tvq", long=word_set("test"), required=word_set("-t --test"), read_operands="all"),
    "zipinfo": OptionRow("12smlvht", read_operands="none"),
    "unzip": OptionRow("ltvqZ", required=word_set("-l -t -v -Z")),
    "cpio": OptionRow("itvn", long=word_set("list quiet verbose"), required=word_set("-t --list"), max_operands=0),
    # files and folders
    "ls": harmless_row("ITw"),
    "dir": harmless_row("ITw"),
    "vdir": harmless_row("ITw"),
    "eza": harmless_row(),
    "exa": harmless_row(),
    "stat": harmless_row("cf"),
    "du": harmless_row(),
    "df": harmless_row(),
    "pwd": harmless_row(),
    "basename": harmless_row(),
    "dirname": harmless_row(),
    "realpath": harmless_row(),
    "readlink": harmless_row(),
    "tree": OptionRow("adfilpsughDFvtcUrNnCxqQJX", "LPI", long=word_set(
        "dirsfirst gitignore noreport prune filelimit charset du si inodes device sort help version"),
        long_valued=word_set("filelimit charset")),
    "file": OptionRow("bihkLNrsv0", "eFP", long=word_set(
        "brief mime mime-type mime-encoding keep-going dereference no-pad raw print0 extension")),
    # words, numbers, time
    "echo": harmless_row(),
    "true": harmless_row(),
    "false": harmless_row(),
    ":": harmless_row(),
    "seq": harmless_row(),
    "expr": harmless_row(),
    "factor": harmless_row(),
    "sleep": harmless_row(),
    "cal": harmless_row(),
    # the machine
    "whoami": harmless_row(),
    "id": harmless_row(),
    "groups": harmless_row(),
    "users": harmless_row(),
    "who": harmless_row(),
    "w": harmless_row(),
    "logname": harmless_row(),
    "tty": harmless_row(),
    "uname": harmless_row(),
    "arch": harmless_row(),
    "nproc": harmless_row(),
    "uptime": harmless_row(),
    "free": harmless_row(),
    "lscpu": harmless_row(),
    "lsblk": harmless_row(),
    "ps": harmless_row(),
    "pgrep": harmless_row(),
    "pidof": harmless_row(),
    "printenv": harmless_row(),
    "locale": harmless_row(),
    "getconf": harmless_row(),
    "sw_vers": harmless_row(),
    "hostname": OptionRow("fsidIA", long=word_set("fqdn long short ip-address all-ip-addresses domain"), max_operands=0),  # noqa: E501
    "which": harmless_row(),
    "whereis": harmless_row(),
    # what the shell itself does
    "type": harmless_row(),
    "cd": harmless_row(),
    "pushd": harmless_row(),
    "popd": harmless_row(),
    "dirs": OptionRow("lpv"),
    "exit": harmless_row(),
    "return": harmless_row(),
    "break": harmless_row(),
    "continue": harmless_row(),
    "shift": harmless_row(),
    "wait": OptionRow(),
    "jobs": OptionRow("lnprs"),
    "set": OptionRow("eux", "o", max_operands=0),
    "read": OptionRow("r"),
    # search
    "rg": OptionRow("ilLnNcvwxsSFPUoHIhuq0pa.", "efgtTABCmMjrd", long=word_set(
        "files files-with-matches files-without-match line-number no-line-number count count-matches "
        "ignore-case case-sensitive smart-case fixed-strings word-regexp line-regexp multiline "
        "multiline-dotall only-matching no-filename with-filename hidden no-ignore no-ignore-vcs no-heading "
        "heading json pcre2 null vimgrep column trim type-list stats quiet follow text invert-match "
        "color no-messages pretty unrestricted no-config glob iglob type type-not sort sortr max-count "
        "max-depth context after-context before-context max-columns threads replace regexp"),
        long_valued=word_set("glob iglob type type-not sort sortr max-count max-depth context after-context "
                           "before-context max-columns threads replace regexp color"), read_operands="rest"),
    "ag": OptionRow("ilLncvwsSQoHUua0", "GABCm", long=word_set(
        "files-with-matches count ignore-case case-sensitive smart-case literal word-regexp hidden nocolor "
        "nogroup nobreak noheading numbers invert-match"), read_operands="rest"),
    "fd": OptionRow("HIuigsFaLp0q1", "teEdc", long=word_set(
        "hidden no-ignore unrestricted ignore-case case-sensitive glob regex fixed-strings absolute-path "
        "follow full-path print0 quiet type extension exclude max-depth min-depth exact-depth "
        "color size changed-within changed-before owner max-results"),
        long_valued=word_set("type extension exclude max-depth min-depth exact-depth color size "
                           "changed-within changed-before owner max-results")),
    "yq": OptionRow("recyPMCN", long=word_set("raw-output exit-status compact-output yaml-output"), read_operands="rest"),  # noqa: E501
}  # fmt: skip

READERS["fdfind"] = READERS["fd"]

VERSION_WORDS: dict[str, frozenset[str]] = {
    name: word_set("--version " + more)
    for programs, more in {
        "python python3 python3.11 python3.12 python3.13 python3.14": "-V -VV",
        "node perl": "-v",
        "bash gcc g++ clang cmake make java uv ruff sed awk gawk find tar xargs deno docker gh ruby": "",
    }.items()
    for name in programs.split()
}
"""Programs that one word makes print their version. For others, `-v` or `-V` means something else: `bash -v`
and `python -v` run what they read, `make -V` evaluates the makefile."""

FREE_TARGETS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})

HARMLESS_NAMES = word_set(
    "FILE FILES FILENAME DIR DIRS OUT OUTPUT OUTFILE OUTDIR OUT_DIR OUT_FILE SRC SRC_DIR DST DEST DEST_DIR TARGET "
    "TARGET_DIR NAME NAMES BASE BASE_DIR ROOT ROOT_DIR REPO REPO_ROOT PROJECT F D I J K N S T X Y Z LINE COUNT TOTAL "
    "LOG LOGFILE LOG_FILE MSG RESULT STATUS START END DATE NOW BRANCH COMMIT FOUND MATCHES CONTENT DATA PATTERN OLD "
    "NEW TMPFILE TMP_FILE"
)
"""Variables in capitals that are a script's own: no program of these tables looks at one."""

HARMLESS_VARIABLES = frozenset(
    {"LC_ALL", "LC_CTYPE", "LC_COLLATE", "LC_MESSAGES", "LC_NUMERIC", "LC_TIME", "LANG", "LANGUAGE", "TZ"}
    | {"NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "LINES"}
)
"""Variables that may stand before a command: no program here runs or writes anything because of them."""

FIND_TESTS = word_set(
    "-a -and -o -or -not -true -false -print -print0 -printf -ls -prune -quit -depth -d -daystart -xdev -mount "
    "-noleaf -follow -empty -nouser -nogroup -readable -writable -executable -amin -anewer -atime -cmin -cnewer "
    "-ctime -mmin -mtime -newer -newermt -newerct -newerat -fstype -gid -group -uid -user -ilname -iname -inum "
    "-ipath -iregex -iwholename -links -lname -maxdepth -mindepth -name -path -perm -regex -regextype -samefile "
    "-size -type -used -wholename -xtype -H -L -P -E -X -s -ignore_readdir_race -warn -nowarn -O1 -O2 -O3"
)
"""The words of find that start with `-` and only test or print."""

UNARY_TESTS = word_set("-b -c -d -e -f -g -h -k -n -p -r -s -t -u -w -x -z -G -L -N -O -S")
"""Not `-v` and `-R`: they evaluate a subscript, which may run a substitution."""

BINARY_TESTS = word_set("= == != -eq -ne -lt -le -gt -ge -nt -ot -ef")

CONDITION_WORDS = word_set("= == != =~ < > && || ! ( ) -nt -ot -ef -a -o") | UNARY_TESTS
"""The operators of `[[ … ]]`."""

EVALUATING_OPERATORS = word_set("-v -R -eq -ne -lt -le -gt -ge")
"""Operators of `[[ … ]]` that evaluate their operands as arithmetic, subscripts included."""
