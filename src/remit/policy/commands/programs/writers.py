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

from remit.policy.commands.parse.options import OptionRow, word_set

WrittenOperands: TypeAlias = Literal["none", "all", "rest", "second", "first", "copied", "moved", "linked", "packed"]
"""Which operands are written. `copied`, `moved`, `linked`: the last one, the others being what goes there; what is
moved is written, too. `packed`: each, and a name with the suffix of the packer."""


class WriterRow(Struct, frozen=True):
    """What one program writes.

    `outputs` are the options whose value is a file that is written; `folders` those whose value is a folder that new
    names come into. `deep` are the options that make it go below its operands; `*` stands for always. `needs`: without
    one of them it writes no operand. `idle`: with one of them it writes nothing at all.
    `here`: without an operand it takes the present folder. `expands`: a word `@FILE` stands for the words in that file.
    For the rest see `Write`.
    """

    options: OptionRow
    written_operands: WrittenOperands = "all"
    output_options: frozenset[str] = frozenset()
    folder_options: frozenset[str] = frozenset()
    recursive_options: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()
    no_write_options: frozenset[str] = frozenset()
    follows_links: bool = True
    edits_in_place: bool = False
    may_skip: bool = False
    makes_folder: bool = False
    defaults_to_folder: bool = False
    expands_at_files: bool = False
    suffix: str = ""


def option_row(
    flags: str = "", valued: str = "", long: str = "", long_valued: str = "", attached: str = ""
) -> OptionRow:
    return OptionRow(flags, valued, attached, long=word_set(long), long_valued=word_set(long_valued))


def two_operands(row: OptionRow) -> OptionRow:
    """Two operands at most, and no option after one: some builds would take it for the second."""
    return replace(row, max_operands=2)


def requiring(options: str, row: OptionRow) -> OptionRow:
    """Without one of these options it writes to a name of its own."""
    return replace(row, required=word_set(options))


def packer_row(suffix: str, digits: str = "123456789", valued: str = "", outputs: str = "") -> WriterRow:
    row = option_row(digits + "dkfvqc", valued, "decompress keep force verbose quiet stdout to-stdout best fast rm")
    idle = word_set("-c --stdout --to-stdout")
    return WriterRow(row, "packed", word_set(outputs), follows_links=False, no_write_options=idle, suffix=suffix)


def formatter_row(row: OptionRow, idle: str = "", needs: str = "", *, here: bool = False) -> WriterRow:
    """A program that rewrites the files it is given, and those in the folders it is given."""
    return WriterRow(
        row,
        recursive_options=word_set("*"),
        no_write_options=word_set(idle),
        required=word_set(needs),
        edits_in_place=True,
        may_skip=True,
        defaults_to_folder=here,
    )


RECURSIVE = word_set("-R -r --recursive")
COPY_RECURSIVE = word_set("-R -r --recursive -a --archive -d --no-dereference -P")

WRITERS: dict[str, WriterRow] = {
    # files and folders
    "touch": WriterRow(option_row("acfhm", "drt", "no-create no-dereference", "date reference time"), edits_in_place=True),  # noqa: E501
    "mkdir": WriterRow(option_row("pv", "m", "parents verbose", "mode"), edits_in_place=True, makes_folder=True),
    "rmdir": WriterRow(option_row("v", "", "ignore-fail-on-non-empty verbose"), follows_links=False),
    "rm": WriterRow(option_row("dfirRvI", "", "force recursive verbose dir interactive one-file-system"), recursive_options=RECURSIVE,  # noqa: E501
                 follows_links=False),
    "unlink": WriterRow(option_row(), follows_links=False),
    "shred": WriterRow(option_row("fuvxz", "ns", "remove zero force verbose", "iterations size")),
    "truncate": WriterRow(option_row("co", "sr", "no-create", "size reference")),
    "tee": WriterRow(option_row("aip", "", "append ignore-interrupts")),
    "sponge": WriterRow(option_row("a")),
    "dos2unix": WriterRow(option_row("qkfo", "", "quiet keepdate force"), follows_links=False, edits_in_place=True),
    "unix2dos": WriterRow(option_row("qkfo", "", "quiet keepdate force"), follows_links=False, edits_in_place=True),
    "cp": WriterRow(option_row("afidLPnpRruvxH", "", "archive force interactive dereference no-dereference no-clobber recursive "  # noqa: E501
                      "update verbose one-file-system preserve no-target-directory remove-destination", "no-preserve"),
                 "copied", folder_options=word_set("-t --target-directory"), recursive_options=COPY_RECURSIVE),
    "mv": WriterRow(option_row("finuvT", "", "force interactive no-clobber update verbose no-target-directory"), "moved",  # noqa: E501
                 folder_options=word_set("-t --target-directory"), recursive_options=word_set("*"), follows_links=False),  # noqa: E501
    "ln": WriterRow(option_row("sfnvLPrT", "", "symbolic force no-dereference verbose relative no-target-directory"), "linked",  # noqa: E501
                 folder_options=word_set("-t --target-directory"), follows_links=False),
    "link": WriterRow(option_row(), "linked", follows_links=False),
    "install": WriterRow(option_row("cCDpsvT", "gmo", "compare preserve-timestamps strip verbose", "group mode owner"), "copied",  # noqa: E501
                      folder_options=word_set("-t --target-directory")),
    # rights and owners
    "chmod": WriterRow(option_row("Rcfv", "", "recursive changes silent quiet verbose"), "rest", recursive_options=RECURSIVE, edits_in_place=True),  # noqa: E501
    "chown": WriterRow(option_row("RcfvhHLP", "", "recursive changes silent quiet verbose no-dereference"), "rest", recursive_options=RECURSIVE,  # noqa: E501
                    edits_in_place=True),
    "chgrp": WriterRow(option_row("RcfvhHLP", "", "recursive changes silent quiet verbose no-dereference"), "rest", recursive_options=RECURSIVE,  # noqa: E501
                    edits_in_place=True),
    "setfattr": WriterRow(option_row("h", "nvx", "no-dereference", "name value remove"), edits_in_place=True),
    "setfacl": WriterRow(option_row("bkRdn", "mx", "remove-all recursive default", "modify remove"), recursive_options=RECURSIVE, edits_in_place=True),  # noqa: E501
    # an output beside what is read
    "sort": WriterRow(option_row("bcCdfghiMnrRsuVzm", "kSto", "ignore-leading-blanks dictionary-order ignore-case reverse "  # noqa: E501
                        "unique general-numeric-sort human-numeric-sort numeric-sort version-sort stable merge "
                        "zero-terminated", "key field-separator output"), "none", word_set("-o --output")),
    "shuf": WriterRow(option_row("erz", "nio", "echo repeat zero-terminated", "head-count input-range output"), "none",
                   word_set("-o --output")),
    "uniq": WriterRow(two_operands(option_row("cdDiuz", "fsw", "count repeated ignore-case unique zero-terminated")), "second"),  # noqa: E501
    "iconv": WriterRow(option_row("c", "fto", "", "from-code to-code output"), "none", word_set("-o --output")),
    "tree": WriterRow(option_row("adfilpsughDFvtcUrNnCxqQJX", "LPIo", "dirsfirst gitignore noreport prune"), "none",
                   word_set("-o")),
    "split": WriterRow(two_operands(option_row("dxev", "lbCna", "verbose numeric-suffixes hex-suffixes",
                                 "lines bytes suffix-length number")), "second", suffix="aa"),
    "csplit": WriterRow(option_row("ksqz", "fbn", "", "prefix digits"), "none", word_set("-f --prefix"), suffix="00"),
    "rsvg-convert": WriterRow(option_row("ak", "whxyzdpfb", "keep-aspect-ratio", "width height zoom format"), "none",
                           word_set("-o --output")),
    "xmllint": WriterRow(option_row("", "", "format noout recover nonet noblanks c14n huge valid", "encode xpath schema"),  # noqa: E501
                      "none", word_set("-o --output")),
    "msgfmt": WriterRow(requiring("-o --output-file", option_row("cvf", "", "check statistics verbose use-fuzzy")), "none",  # noqa: E501
                     word_set("-o --output-file")),
    "msgmerge": WriterRow(requiring("-o --output-file", option_row("qvN", "", "quiet verbose no-fuzzy-matching")), "none",  # noqa: E501
                       word_set("-o --output-file")),
    "xgettext": WriterRow(requiring("-o --output", option_row("ans", "Lk", "sort-output no-location",
                                                    "from-code language keyword")), "none", word_set("-o --output")),
    "pg_dump": WriterRow(option_row("acCOsxvwW", "dhpUnNtTE", "schema-only data-only no-owner no-privileges clean if-exists "  # noqa: E501
                           "inserts column-inserts create verbose", "dbname host port username schema table "
                           "exclude-table"), "none", word_set("-f --file")),
    **dict.fromkeys(word_set("dot neato fdp sfdp circo twopi"), WriterRow(option_row("vq", "TKGNE"), "none", word_set("-o"))),  # noqa: E501
    # one file that is kept, but for a part
    "fallocate": WriterRow(option_row("cdnpvxz", "lo", "collapse-range dig-holes keep-size punch-hole verbose zero-range",  # noqa: E501
                             "length offset"), edits_in_place=True),
    "htpasswd": WriterRow(option_row("cbBmdsp5iDvn", "Cr"), "first", no_write_options=word_set("-n -v")),
    "patchelf": WriterRow(option_row("", "", "print-rpath print-needed print-soname print-interpreter remove-rpath shrink-rpath "  # noqa: E501
                            "force-rpath", "set-rpath set-interpreter set-soname add-needed remove-needed"),
                       output_options=word_set("--output"), required=word_set("--remove-rpath --shrink-rpath --force-rpath --set-rpath "  # noqa: E501
                       "--set-interpreter --set-soname --add-needed --remove-needed"), edits_in_place=True),
    "jpegoptim": WriterRow(option_row("fopqtvs", "mTS", "strip-all all-progressive all-normal quiet force preserve", "max size"),  # noqa: E501
                        edits_in_place=True),
    "ranlib": WriterRow(option_row("DU"), edits_in_place=True, expands_at_files=True),
    "strip": WriterRow(option_row("sgSdxXpDv", "KNR", "strip-all strip-debug strip-unneeded preserve-dates verbose",
                         "keep-symbol strip-symbol remove-section"), output_options=word_set("-o"), edits_in_place=True, expands_at_files=True),  # noqa: E501
    # packers
    "gzip": packer_row(".gz"),
    "gunzip": packer_row(".gz"),
    "bzip2": packer_row(".bz2"),
    "bunzip2": packer_row(".bz2"),
    "xz": packer_row(".xz", "0123456789"),
    "unxz": packer_row(".xz"),
    "lzma": packer_row(".lzma", "0123456789"),
    "unlzma": packer_row(".lzma"),
    "lzip": packer_row(".lz", "0123456789"),
    "compress": WriterRow(option_row("cfv"), "packed", follows_links=False, no_write_options=word_set("-c"), suffix=".Z"),  # noqa: E501
    "uncompress": WriterRow(option_row("cfv"), "packed", follows_links=False, no_write_options=word_set("-c"), suffix=".Z"),  # noqa: E501
    "pigz": packer_row(".gz", "0123456789", "pb"),
    "unpigz": packer_row(".gz", valued="p"),
    "pbzip2": packer_row(".bz2", valued="p"),
    "zstd": packer_row(".zst", valued="T", outputs="-o"),
    "unzstd": packer_row(".zst", valued="T", outputs="-o"),
    "zstdmt": packer_row(".zst", valued="T", outputs="-o"),
    "lz4": packer_row(".lz4"),
    "unlz4": packer_row(".lz4"),
    "brotli": WriterRow(option_row("0123456789dfkcjnvtZ", "qw", "decompress force keep stdout rm verbose test best",
                          "quality lgwin"), "packed", word_set("-o --output"), follows_links=False,
                     no_write_options=word_set("-c -t --stdout --test"), suffix=".br"),
    "zip": WriterRow(option_row("rqjv0123456789X"), "first", suffix=".zip"),
    "unzip": WriterRow(option_row("oqnjuL", "d"), "none", folder_options=word_set("-d")),
    # formatters: what is not listed as idle rewrites
    "black": formatter_row(option_row("qvSt", "lt", "quiet verbose check diff preview", "line-length target-version config"),  # noqa: E501
                        "--check --diff"),
    "isort": formatter_row(option_row("qvcd", "lm", "quiet verbose check check-only diff atomic", "profile line-length"),  # noqa: E501
                        "-c -d --check --check-only --diff"),
    "autopep8": formatter_row(option_row("iradv", "p", "in-place recursive aggressive diff", "max-line-length select ignore"),  # noqa: E501
                           "-d --diff", "-i --in-place"),
    "yapf": formatter_row(option_row("irdpv", "e", "in-place recursive diff parallel", "style exclude"), "-d --diff",
                       "-i --in-place"),
    "gofmt": formatter_row(option_row("wlsde"), "", "-w"),
    "clang-format": replace(formatter_row(option_row("in", "", "verbose dry-run Werror", "style"), "-n --dry-run", "-i"),  # noqa: E501
                            expands_at_files=True),
    "goimports": formatter_row(option_row("wlde"), "", "-w"),
    "gofumpt": formatter_row(option_row("wlde"), "", "-w"),
    "pyupgrade": formatter_row(option_row("", "", "py3-plus py36-plus py37-plus py38-plus py39-plus py310-plus py311-plus "  # noqa: E501
                                 "py312-plus py313-plus py314-plus keep-percent-format keep-runtime-typing "
                                 "exit-zero-even-if-changed")),
    "autoflake": formatter_row(option_row("irc", "", "in-place recursive check check-diff remove-all-unused-imports "
                                 "remove-unused-variables expand-star-imports ignore-init-module-imports",
                                 "imports exclude"), "-c --check --check-diff"),
    "docformatter": formatter_row(option_row("irc", "", "in-place recursive check", "wrap-summaries wrap-descriptions"),
                               "-c --check"),
    "stylua": formatter_row(option_row("v", "", "check verify verbose"), "--check"),
    "nixfmt": formatter_row(option_row("cqs", "w", "check quiet strict verify", "width"), "-c --check"),
    "shfmt": formatter_row(option_row("wldsm", "i", "write list diff simplify"), "", "-w --write"),
    "yq": WriterRow(option_row("iyrPjNeI", "", "inplace yaml-output in-place"), "rest", required=word_set("-i --inplace --in-place"),  # noqa: E501
                 follows_links=False, edits_in_place=True),
}  # fmt: skip

VERB_WRITERS: dict[str, dict[str, WriterRow]] = {
    "ruff": {
        "format": formatter_row(option_row("qvs", "", "check diff quiet verbose no-cache",
                                  "line-length exclude target-version"), "--check --diff", here=True),
        "check": formatter_row(option_row("qvse", "", "fix fix-only unsafe-fixes quiet verbose no-cache show-fixes exit-zero "  # noqa: E501
                                 "diff no-fix", "select ignore extend-select line-length exclude output-format"),
                            "--diff", "--fix --fix-only", here=True),
    },
    "taplo": dict.fromkeys(("fmt", "format"), formatter_row(option_row("", "", "check diff force"), "--check")),
    "deno": {"fmt": formatter_row(option_row("q", "", "check quiet"), "--check")},
    "zig": {"fmt": formatter_row(option_row("", "", "check"), "--check")},
}  # fmt: skip
"""Programs whose first word says what they do. Those without `here` take files of their settings where none is named,
so they must be given some. Not `ruff --config`: a setting given there makes a reader write (`fix=true`), and elsewhere
(`cache-dir`)."""

SHELL_WORDS = word_set("cd pushd popd exit return break continue")
"""What moves the shell itself: no function may take their names."""
