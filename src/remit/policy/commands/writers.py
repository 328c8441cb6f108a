"""The table of programs that write what their words name: one row a program.

A row lists the options that leave it at that; any other option, and any abbreviation, makes the command unknown. Left
out on purpose, since they run what the repository or a file says: `make`, package managers, `eslint` and `prettier`
(their settings are programs), `rustfmt` and `cargo fmt` (they follow `mod`), `patch` and `git apply` (the names stand
in the patch), `rename`, `vim`, `ed`, `cargo`, `go`, `gawk -i` (looks for its library in the present folder). And
`mkfifo` and `mknod`: whoever opens a pipe waits at it, such as git where one is called `.gitignore`.

Source: the manuals of GNU coreutils 9.1, sed 4.9, findutils 4.9, tar 1.34, gzip 1.12, Info-ZIP 3.0 and 6.0, rsync 3.2,
curl 8.5, GNU Wget 1.21, util-linux 2.38, acl 2.3, attr 2.5, git 2.39 to 2.51, GNU binutils 2.42, gettext 0.22, and of
the other packers and formatters named, read 2026-11.
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
    `here`: without an operand it takes the present folder. `expands`: a word `@FILE` stands for the words in that file.
    For the rest see `Write`.
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
    expands: bool = False
    suffix: str = ""


def _row(flags: str = "", valued: str = "", long: str = "", long_valued: str = "", attached: str = "") -> Row:
    return Row(flags, valued, attached, long=names(long), long_valued=names(long_valued))


def _second(row: Row) -> Row:
    """Two operands at most, and no option after one: some builds would take it for the second."""
    return replace(row, operands=2)


def _needing(options: str, row: Row) -> Row:
    """Without one of these options it writes to a name of its own."""
    return replace(row, needs=names(options))


def _packer(suffix: str, digits: str = "123456789", valued: str = "", outputs: str = "") -> Writer:
    row = _row(digits + "dkfvqc", valued, "decompress keep force verbose quiet stdout to-stdout best fast rm")
    idle = names("-c --stdout --to-stdout")
    return Writer(row, "packed", names(outputs), follows=False, idle=idle, suffix=suffix)


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
    "setfattr": Writer(_row("h", "nvx", "no-dereference", "name value remove"), edits=True),
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
    "rsvg-convert": Writer(_row("ak", "whxyzdpfb", "keep-aspect-ratio", "width height zoom format"), "none",
                           names("-o --output")),
    "xmllint": Writer(_row("", "", "format noout recover nonet noblanks c14n huge valid", "encode xpath schema"),
                      "none", names("-o --output")),
    "msgfmt": Writer(_needing("-o --output-file", _row("cvf", "", "check statistics verbose use-fuzzy")), "none",
                     names("-o --output-file")),
    "msgmerge": Writer(_needing("-o --output-file", _row("qvN", "", "quiet verbose no-fuzzy-matching")), "none",
                       names("-o --output-file")),
    "xgettext": Writer(_needing("-o --output", _row("ans", "Lk", "sort-output no-location",
                                                    "from-code language keyword")), "none", names("-o --output")),
    "pg_dump": Writer(_row("acCOsxvwW", "dhpUnNtTE", "schema-only data-only no-owner no-privileges clean if-exists "
                           "inserts column-inserts create verbose", "dbname host port username schema table "
                           "exclude-table"), "none", names("-f --file")),
    **dict.fromkeys(names("dot neato fdp sfdp circo twopi"), Writer(_row("vq", "TKGNE"), "none", names("-o"))),
    # one file that is kept, but for a part
    "fallocate": Writer(_row("cdnpvxz", "lo", "collapse-range dig-holes keep-size punch-hole verbose zero-range",
                             "length offset"), edits=True),
    "htpasswd": Writer(_row("cbBmdsp5iDvn", "Cr"), "first", idle=names("-n -v")),
    "patchelf": Writer(_row("", "", "print-rpath print-needed print-soname print-interpreter remove-rpath shrink-rpath "
                            "force-rpath", "set-rpath set-interpreter set-soname add-needed remove-needed"),
                       outputs=names("--output"), needs=names("--remove-rpath --shrink-rpath --force-rpath --set-rpath "
                       "--set-interpreter --set-soname --add-needed --remove-needed"), edits=True),
    "jpegoptim": Writer(_row("fopqtvs", "mTS", "strip-all all-progressive all-normal quiet force preserve", "max size"),
                        edits=True),
    "ranlib": Writer(_row("DU"), edits=True, expands=True),
    "strip": Writer(_row("sgSdxXpDv", "KNR", "strip-all strip-debug strip-unneeded preserve-dates verbose",
                         "keep-symbol strip-symbol remove-section"), outputs=names("-o"), edits=True, expands=True),
    # packers
    "gzip": _packer(".gz"),
    "gunzip": _packer(".gz"),
    "bzip2": _packer(".bz2"),
    "bunzip2": _packer(".bz2"),
    "xz": _packer(".xz", "0123456789"),
    "unxz": _packer(".xz"),
    "lzma": _packer(".lzma", "0123456789"),
    "unlzma": _packer(".lzma"),
    "lzip": _packer(".lz", "0123456789"),
    "compress": Writer(_row("cfv"), "packed", follows=False, idle=names("-c"), suffix=".Z"),
    "uncompress": Writer(_row("cfv"), "packed", follows=False, idle=names("-c"), suffix=".Z"),
    "pigz": _packer(".gz", "0123456789", "pb"),
    "unpigz": _packer(".gz", valued="p"),
    "pbzip2": _packer(".bz2", valued="p"),
    "zstd": _packer(".zst", valued="T", outputs="-o"),
    "unzstd": _packer(".zst", valued="T", outputs="-o"),
    "zstdmt": _packer(".zst", valued="T", outputs="-o"),
    "lz4": _packer(".lz4"),
    "unlz4": _packer(".lz4"),
    "brotli": Writer(_row("0123456789dfkcjnvtZ", "qw", "decompress force keep stdout rm verbose test best",
                          "quality lgwin"), "packed", names("-o --output"), follows=False,
                     idle=names("-c -t --stdout --test"), suffix=".br"),
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
    "gofmt": _formatter(_row("wlsde"), "", "-w"),
    "clang-format": replace(_formatter(_row("in", "", "verbose dry-run Werror", "style"), "-n --dry-run", "-i"),
                            expands=True),
    "goimports": _formatter(_row("wlde"), "", "-w"),
    "gofumpt": _formatter(_row("wlde"), "", "-w"),
    "pyupgrade": _formatter(_row("", "", "py3-plus py36-plus py37-plus py38-plus py39-plus py310-plus py311-plus "
                                 "py312-plus py313-plus py314-plus keep-percent-format keep-runtime-typing "
                                 "exit-zero-even-if-changed")),
    "autoflake": _formatter(_row("irc", "", "in-place recursive check check-diff remove-all-unused-imports "
                                 "remove-unused-variables expand-star-imports ignore-init-module-imports",
                                 "imports exclude"), "-c --check --check-diff"),
    "docformatter": _formatter(_row("irc", "", "in-place recursive check", "wrap-summaries wrap-descriptions"),
                               "-c --check"),
    "stylua": _formatter(_row("v", "", "check verify verbose"), "--check"),
    "nixfmt": _formatter(_row("cqs", "w", "check quiet strict verify", "width"), "-c --check"),
    "shfmt": _formatter(_row("wldsm", "i", "write list diff simplify"), "", "-w --write"),
    "yq": Writer(_row("iyrPjNeI", "", "inplace yaml-output in-place"), "rest", needs=names("-i --inplace --in-place"),
                 follows=False, edits=True),
}  # fmt: skip

VERBS: dict[str, dict[str, Writer]] = {
    "ruff": {
        "format": _formatter(_row("qvs", "", "check diff quiet verbose no-cache",
                                  "line-length exclude target-version"), "--check --diff", here=True),
        "check": _formatter(_row("qvse", "", "fix fix-only unsafe-fixes quiet verbose no-cache show-fixes exit-zero "
                                 "diff no-fix", "select ignore extend-select line-length exclude output-format"),
                            "--diff", "--fix --fix-only", here=True),
    },
    "taplo": dict.fromkeys(("fmt", "format"), _formatter(_row("", "", "check diff force"), "--check")),
    "deno": {"fmt": _formatter(_row("q", "", "check quiet"), "--check")},
    "zig": {"fmt": _formatter(_row("", "", "check"), "--check")},
}  # fmt: skip
"""Programs whose first word says what they do. Those without `here` take files of their settings where none is named,
so they must be given some. Not `ruff --config`: a setting given there makes a reader write (`fix=true`), and elsewhere
(`cache-dir`)."""

SHELL_WORDS = names("cd pushd popd exit return break continue")
"""What moves the shell itself: no function may take their names."""
