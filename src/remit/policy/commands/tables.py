"""The read-only table: one row a command. What is not here is not proved.

A row with `any_option` is a command that cannot write, whatever it is given; all other rows list what
is known to be harmless. Left out on purpose, though often called read-only: `man` and pagers with
commands, `make -n` (`$(shell …)` runs), `tee`, `dd`, `nm` (loads plugins), `cargo`, `go` and `yarn`
(even `--version` may fetch, or run what the repository names), `ss` (`-K` kills), `nohup` (nohup.out).

Source: the manuals of GNU coreutils 9.1, findutils 4.9, grep 3.8, diffutils 3.8, ripgrep 14, jq 1.6,
procps 4.0, util-linux 2.38, read 2026-11.
"""

from remit.policy.commands.options import Reads, Row, names


def _free(valued: str = "", reads: Reads = "none", long_valued: str = "") -> Row:
    """A command that cannot write; the options with values are listed only to find its files."""
    return Row(valued=valued, long_valued=names(long_valued), any_option=True, reads=reads, digits=True)


SEARCH = _free("ABCefmd", "rest", "regexp file after-context before-context context max-count include exclude")

COMMANDS: dict[str, Row] = {
    # files to standard output
    "cat": _free(reads="all"),
    "tac": _free("s", "all"),
    "head": _free("nc", "all", "lines bytes"),
    "tail": _free("ncs", "all", "lines bytes pid"),
    "nl": _free("bdfhilnsvw", "all"),
    "rev": _free(reads="all"),
    "wc": _free(reads="all"),
    "cut": _free("bcdf", "all", "bytes characters delimiter fields output-delimiter"),
    "paste": _free("d", "all"),
    "fold": _free("w", "all"),
    "fmt": _free("wgp", "all"),
    "expand": _free("t", "all"),
    "unexpand": _free("t", "all"),
    "column": _free("csoNEHRTlOd", "all"),
    "join": _free("12aejotv", "all"),
    "comm": _free(reads="all"),
    "cmp": _free("inj", "all"),
    "diff": _free("ILUCWxXS", "all", "label exclude ignore-matching-lines unified"),
    "tr": _free(),
    "numfmt": _free(),
    "tsort": _free(reads="all"),
    "od": _free("AjNStw", "all"),
    "hexdump": _free("cefns", "all"),
    "hd": _free("cefns", "all"),
    "md5sum": _free(reads="all"),
    "sha1sum": _free(reads="all"),
    "sha224sum": _free(reads="all"),
    "sha256sum": _free(reads="all"),
    "sha384sum": _free(reads="all"),
    "sha512sum": _free(reads="all"),
    "shasum": _free("a", "all"),
    "b2sum": _free("l", "all"),
    "cksum": _free("al", "all"),
    "sum": _free(reads="all"),
    "grep": SEARCH,
    "egrep": SEARCH,
    "fgrep": SEARCH,
    "jq": _free("fL", "rest", "from-file tab indent"),
    "sort": Row("bcCdfghiMnrRsuVzm", "kSt", long=names(
        "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort human-numeric-sort "
        "ignore-nonprinting month-sort numeric-sort random-sort reverse version-sort check merge stable "
        "unique zero-terminated sort key field-separator parallel debug"), reads="all"),
    "shuf": Row("erz", "ni", long=names("echo repeat zero-terminated head-count input-range")),
    "uniq": Row("cdDiuz", "fsw", long=names(
        "count repeated all-repeated group ignore-case unique zero-terminated skip-fields skip-chars "
        "check-chars"), operands=1, reads="all"),
    "base64": Row("di", "w", long=names("decode ignore-garbage wrap"), reads="all"),
    "xxd": Row("abeEipru", "cglos", operands=1, reads="all"),
    "iconv": Row("cl", "ft", long=names("from-code to-code list"), reads="all"),
    "strings": Row("a", "nte", long=names("all bytes radix encoding"), reads="all"),
    "less": Row("NSRFXnirEeKsw", reads="all"),
    "more": Row("dfps", "n", reads="all"),
    "zcat": Row("fq", reads="all"),
    "gzip": Row("tlvq", long=names("test list verbose quiet"), needs=names("-t -l --test --list"),
                reads="all"),
    "xz": Row("tlvq", long=names("test list verbose quiet"), needs=names("-t -l --test --list"),
              reads="all"),
    "bzip2": Row("tvq", long=names("test"), needs=names("-t --test"), reads="all"),
    "zipinfo": Row("12smlvht", reads="none"),
    "unzip": Row("ltvqZ", needs=names("-l -t -v -Z")),
    "cpio": Row("itvn", long=names("list quiet verbose"), needs=names("-t --list"), operands=0),
    # files and folders
    "ls": _free("ITw"),
    "dir": _free("ITw"),
    "vdir": _free("ITw"),
    "eza": _free(),
    "exa": _free(),
    "stat": _free("cf"),
    "du": _free(),
    "df": _free(),
    "pwd": _free(),
    "basename": _free(),
    "dirname": _free(),
    "realpath": _free(),
    "readlink": _free(),
    "tree": Row("adfilpsughDFvtcUrNnCxqQJX", "LPI", long=names(
        "dirsfirst gitignore noreport prune filelimit charset du si inodes device sort help version"),
        long_valued=names("filelimit charset")),
    "file": Row("bihkLNrsv0", "eFP", long=names(
        "brief mime mime-type mime-encoding keep-going dereference no-pad raw print0 extension")),
    # words, numbers, time
    "echo": _free(),
    "true": _free(),
    "false": _free(),
    ":": _free(),
    "seq": _free(),
    "expr": _free(),
    "factor": _free(),
    "sleep": _free(),
    "cal": _free(),
    # the machine
    "whoami": _free(),
    "id": _free(),
    "groups": _free(),
    "users": _free(),
    "who": _free(),
    "w": _free(),
    "logname": _free(),
    "tty": _free(),
    "uname": _free(),
    "arch": _free(),
    "nproc": _free(),
    "uptime": _free(),
    "free": _free(),
    "lscpu": _free(),
    "lsblk": _free(),
    "ps": _free(),
    "pgrep": _free(),
    "pidof": _free(),
    "printenv": _free(),
    "locale": _free(),
    "getconf": _free(),
    "sw_vers": _free(),
    "hostname": Row("fsidIA", long=names("fqdn long short ip-address all-ip-addresses domain"), operands=0),
    "which": _free(),
    "whereis": _free(),
    # what the shell itself does
    "type": _free(),
    "cd": _free(),
    "pushd": _free(),
    "popd": _free(),
    "dirs": Row("lpv"),
    "exit": _free(),
    "return": _free(),
    "break": _free(),
    "continue": _free(),
    "shift": _free(),
    "wait": Row(),
    "jobs": Row("lnprs"),
    "set": Row("eux", "o", operands=0),
    "read": Row("r"),
    # search
    "rg": Row("ilLnNcvwxsSFPUoHIhuq0pa.", "efgtTABCmMjrd", long=names(
        "files files-with-matches files-without-match line-number no-line-number count count-matches "
        "ignore-case case-sensitive smart-case fixed-strings word-regexp line-regexp multiline "
        "multiline-dotall only-matching no-filename with-filename hidden no-ignore no-ignore-vcs no-heading "
        "heading json pcre2 null vimgrep column trim type-list stats quiet follow text invert-match "
        "color no-messages pretty unrestricted no-config glob iglob type type-not sort sortr max-count "
        "max-depth context after-context before-context max-columns threads replace regexp"),
        long_valued=names("glob iglob type type-not sort sortr max-count max-depth context after-context "
                           "before-context max-columns threads replace regexp color"), reads="rest"),
    "ag": Row("ilLncvwsSQoHUua0", "GABCm", long=names(
        "files-with-matches count ignore-case case-sensitive smart-case literal word-regexp hidden nocolor "
        "nogroup nobreak noheading numbers invert-match"), reads="rest"),
    "fd": Row("HIuigsFaLp0q1", "teEdc", long=names(
        "hidden no-ignore unrestricted ignore-case case-sensitive glob regex fixed-strings absolute-path "
        "follow full-path print0 quiet type extension exclude max-depth min-depth exact-depth "
        "color size changed-within changed-before owner max-results"),
        long_valued=names("type extension exclude max-depth min-depth exact-depth color size "
                           "changed-within changed-before owner max-results")),
    "yq": Row("recyPMCN", long=names("raw-output exit-status compact-output yaml-output"), reads="rest"),
}  # fmt: skip

COMMANDS["fdfind"] = COMMANDS["fd"]

VERSION_WORDS: dict[str, frozenset[str]] = {
    name: names("--version " + more)
    for programs, more in {
        "python python3 python3.11 python3.12 python3.13 python3.14": "-V -VV",
        "node perl": "-v",
        "bash gcc g++ clang cmake make java uv ruff sed awk gawk find tar xargs deno docker gh ruby": "",
    }.items()
    for name in programs.split()
}
"""Programs that one word makes print their version. For others, `-v` or `-V` means something else: `bash -v`
and `python -v` run what they read, `make -V` evaluates the makefile."""

WRITTEN_TO_FREELY = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})

HARMLESS_NAMES = names(
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

FIND_TESTS = names(
    "-a -and -o -or -not -true -false -print -print0 -printf -ls -prune -quit -depth -d -daystart -xdev -mount "
    "-noleaf -follow -empty -nouser -nogroup -readable -writable -executable -amin -anewer -atime -cmin -cnewer "
    "-ctime -mmin -mtime -newer -newermt -newerct -newerat -fstype -gid -group -uid -user -ilname -iname -inum "
    "-ipath -iregex -iwholename -links -lname -maxdepth -mindepth -name -path -perm -regex -regextype -samefile "
    "-size -type -used -wholename -xtype -H -L -P -E -X -s -ignore_readdir_race -warn -nowarn -O1 -O2 -O3"
)
"""The words of find that start with `-` and only test or print."""

TEST_UNARY = names("-b -c -d -e -f -g -h -k -n -p -r -s -t -u -w -x -z -G -L -N -O -S")
"""Not `-v` and `-R`: they evaluate a subscript, which may run a substitution."""

TEST_BINARY = names("= == != -eq -ne -lt -le -gt -ge -nt -ot -ef")

CONDITION_WORDS = names("= == != =~ < > && || ! ( ) -nt -ot -ef -a -o") | TEST_UNARY
"""The operators of `[[ … ]]`."""

EVALUATING = names("-v -R -eq -ne -lt -le -gt -ge")
"""Operators of `[[ … ]]` that evaluate their operands as arithmetic, subscripts included."""
