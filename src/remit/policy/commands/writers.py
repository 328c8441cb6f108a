"""The table of programs that write what their words name: one row a program.

A row lists the options that leave it at that; any other option, and any abbreviation, makes the command unknown. Left
out on purpose, since they run what the repository or a file says: `make`, package managers, `eslint` and `prettier`
(their settings are programs), `rustfmt` and `cargo fmt` (they follow `mod`), `patch` and `git apply` (the names stand
in the patch), `rename`, `vim`, `ed`, `gawk -i` (looks for its library in the present folder).

Source: the manuals of GNU coreutils 9.1, sed 4.9, findutils 4.9, tar 1.34, gzip 1.12, Info-ZIP 3.0 and 6.0, rsync 3.2,
curl 8.5, GNU Wget 1.21, util-linux 2.38, acl 2.3, git 2.39 to 2.51, and of the formatters named, read 2026-11.
"""

from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.policy.commands.options import Row, names

Operands: TypeAlias = Literal["none", "all", "rest", "second", "first", "copied", "moved", "linked", "packed"]
"""Which operands are written. `copied`, `moved`, `linked`: the last one, the others being what goes there; what is
moved is written, too. `packed`: each, and a name with the suffix of the packer."""


class Writer(Struct, frozen=True):
    """What one program writes.

    `outputs` are the options whose value is a file that is written; `folders` those whose value is a folder that new
    names come into. `deep` are the options that make it go below its operands; `*` stands for always. `needs`: without
    one of them it writes no operand. `idle`: with one of them it writes nothing at all.
    `here`: without an operand it takes the present folder. For the rest see `Write`.
    """

    row: Row
    operands: Operands = "all"
    outputs: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()
    deep: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    idle: frozenset[str] = frozenset()
    follows: bool = True
    edits: bool = False
    maybe: bool = False
    makes: bool = False
    here: bool = False
    suffix: str = ""


def _row(flags: str = "", valued: str = "", long: str = "", long_valued: str = "", attached: str = "") -> Row:
    return Row(flags, valued, attached, long=names(long), long_valued=names(long_valued))


def _second(row: Row) -> Row:
    """Two operands at most, and no option after one: some builds would take it for the second."""
    return replace(row, operands=2)


def _packer(suffix: str, digits: str = "123456789") -> Writer:
    row = _row(digits + "dkfvqc", "", "decompress keep force verbose quiet stdout to-stdout best fast rm")
    return Writer(row, "packed", follows=False, idle=names("-c --stdout --to-stdout"), suffix=suffix)


def _formatter(row: Row, idle: str = "", needs: str = "", *, here: bool = False) -> Writer:
    """A program that rewrites the files it is given, and those in the folders it is given."""
    return Writer(row, deep=names("*"), idle=names(idle), needs=names(needs), edits=True, maybe=True, here=here)


DEEP = names("-R -r --recursive")
COPY_DEEP = names("-R -r --recursive -a --archive -d --no-dereference -P")

WRITERS: dict[str, Writer] = {
    # files and folders
    "touch": Writer(_row("acfhm", "drt", "no-create no-dereference", "date reference time"), edits=True),
    "mkdir": Writer(_row("pv", "m", "parents verbose", "mode"), edits=True, makes=True),
    "rmdir": Writer(_row("v", "", "ignore-fail-on-non-empty verbose"), follows=False),
    "rm": Writer(_row("dfirRvI", "", "force recursive verbose dir interactive one-file-system"), deep=DEEP,
                 follows=False),
    "unlink": Writer(_row(), follows=False),
    "shred": Writer(_row("fuvxz", "ns", "remove zero force verbose", "iterations size")),
    "truncate": Writer(_row("co", "sr", "no-create", "size reference")),
    "tee": Writer(_row("aip", "", "append ignore-interrupts")),
    "sponge": Writer(_row("a")),
    "mkfifo": Writer(_row("", "m", "", "mode")),
    "mknod": Writer(_row("", "m", "", "mode"), "first"),
    "dos2unix": Writer(_row("qkfo", "", "quiet keepdate force"), follows=False, edits=True),
    "unix2dos": Writer(_row("qkfo", "", "quiet keepdate force"), follows=False, edits=True),
    "cp": Writer(_row("afidLPnpRruvxH", "", "archive force interactive dereference no-dereference no-clobber recursive "
                      "update verbose one-file-system preserve no-target-directory remove-destination", "no-preserve"),
                 "copied", folders=names("-t --target-directory"), deep=COPY_DEEP),
    "mv": Writer(_row("finuvT", "", "force interactive no-clobber update verbose no-target-directory"), "moved",
                 folders=names("-t --target-directory"), deep=names("*"), follows=False),
    "ln": Writer(_row("sfnvLPrT", "", "symbolic force no-dereference verbose relative no-target-directory"), "linked",
                 folders=names("-t --target-directory"), follows=False),
    "link": Writer(_row(), "linked", follows=False),
    "install": Writer(_row("cCDpsvT", "gmo", "compare preserve-timestamps strip verbose", "group mode owner"), "copied",
                      folders=names("-t --target-directory")),
    # rights and owners
    "chmod": Writer(_row("Rcfv", "", "recursive changes silent quiet verbose"), "rest", deep=DEEP, edits=True),
    "chown": Writer(_row("RcfvhHLP", "", "recursive changes silent quiet verbose no-dereference"), "rest", deep=DEEP,
                    edits=True),
    "chgrp": Writer(_row("RcfvhHLP", "", "recursive changes silent quiet verbose no-dereference"), "rest", deep=DEEP,
                    edits=True),
    "setfacl": Writer(_row("bkRdn", "mx", "remove-all recursive default", "modify remove"), deep=DEEP, edits=True),
    # an output beside what is read
    "sort": Writer(_row("bcCdfghiMnrRsuVzm", "kSto", "ignore-leading-blanks dictionary-order ignore-case reverse "
                        "unique general-numeric-sort human-numeric-sort numeric-sort version-sort stable merge "
                        "zero-terminated", "key field-separator output"), "none", names("-o --output")),
    "shuf": Writer(_row("erz", "nio", "echo repeat zero-terminated", "head-count input-range output"), "none",
                   names("-o --output")),
    "uniq": Writer(_second(_row("cdDiuz", "fsw", "count repeated ignore-case unique zero-terminated")), "second"),
    "iconv": Writer(_row("c", "fto", "", "from-code to-code output"), "none", names("-o --output")),
    "tree": Writer(_row("adfilpsughDFvtcUrNnCxqQJX", "LPIo", "dirsfirst gitignore noreport prune"), "none",
                   names("-o")),
    "split": Writer(_second(_row("dxev", "lbCna", "verbose numeric-suffixes hex-suffixes",
                                 "lines bytes suffix-length number")), "second", suffix="aa"),
    "csplit": Writer(_row("ksqz", "fbn", "", "prefix digits"), "none", names("-f --prefix"), suffix="00"),
    # packers
    "gzip": _packer(".gz"),
    "gunzip": _packer(".gz"),
    "bzip2": _packer(".bz2"),
    "bunzip2": _packer(".bz2"),
    "xz": _packer(".xz", "0123456789"),
    "unxz": _packer(".xz"),
    "zstd": _packer(".zst"),
    "zip": Writer(_row("rqjv0123456789X"), "first", suffix=".zip"),
    "unzip": Writer(_row("oqnjuL", "d"), "none", folders=names("-d")),
    # formatters: what is not listed as idle rewrites
    "black": _formatter(_row("qvSt", "lt", "quiet verbose check diff preview", "line-length target-version config"),
                        "--check --diff"),
    "isort": _formatter(_row("qvcd", "lm", "quiet verbose check check-only diff atomic", "profile line-length"),
                        "-c -d --check --check-only --diff"),
    "autopep8": _formatter(_row("iradv", "p", "in-place recursive aggressive diff", "max-line-length select ignore"),
                           "-d --diff", "-i --in-place"),
    "yapf": _formatter(_row("irdpv", "e", "in-place recursive diff parallel", "style exclude"), "-d --diff",
                       "-i --in-place"),
    "gofmt": _formatter(_row("wlsde"), "-d", "-w"),
    "clang-format": _formatter(_row("in", "", "verbose dry-run Werror", "style"), "-n --dry-run", "-i"),
    "shfmt": _formatter(_row("wldsm", "i", "write list diff simplify"), "-d --diff", "-w --write"),
    "yq": Writer(_row("iyrPjNeI", "", "inplace yaml-output in-place"), "rest", needs=names("-i --inplace --in-place"),
                 follows=False, edits=True),
}  # fmt: skip

RUFF: dict[str, Writer] = {
    "format": _formatter(_row("qvs", "", "check diff quiet verbose no-cache",
                              "config line-length exclude target-version"), "--check --diff", here=True),
    "check": _formatter(_row("qvse", "", "fix fix-only unsafe-fixes quiet verbose no-cache show-fixes exit-zero diff "
                             "no-fix", "config select ignore extend-select line-length exclude output-format"),
                        "--diff --no-fix", "--fix --fix-only", here=True),
}  # fmt: skip

SHELL_WORDS = names("cd pushd popd exit return break continue")
"""What moves the shell itself: no function may take their names."""
