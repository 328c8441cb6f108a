"""Archives and packers: programs that put files into archives and take files out.

Source: the manuals of 7-Zip 24, RAR 7, GNU cpio 2.14, GNU binutils 2.42, the JDK 21, GNU tar 1.34, gzip 1.12 and
Info-ZIP 3.0 and 6.0, read 2026-11.
"""

import re
from collections.abc import Sequence

from remit.policy.commands.programs.row import (
    CommandEffects,
    Program,
    WriterRow,
    Writes,
    check_no_at_files,
    extract_to,
    packer_row,
    rows,
    write_all,
    write_files,
)
from remit.policy.commands.words import OptionRow, UnprovedCommand, Word, parse_options


def read_tar(name: str, words: Sequence[Word]) -> CommandEffects:
    letters, archive = (words[0].text, words[1].text) if len(words) > 1 else ("", "")
    listing = re.fullmatch(r"-?[tvzjJ]*f", letters) and "t" in letters and all(word.is_literal for word in words[:2])
    if not listing or ":" in archive or any(word.may_be_option for word in words[1:]):
        raise UnprovedCommand("`tar` is proved only as `tar tf ARCHIVE`")
    return CommandEffects((name,), (archive,))


TAR = OptionRow(
    "cxzjJavkmphoU",
    "fC",
    "create extract get gzip bzip2 xz zstd verbose auto-compress keep-old-files no-same-owner overwrite "
    "no-same-permissions exclude-vcs numeric-owner sort mtime owner group",
    "file directory exclude strip-components",
)


def write_tar(name: str, words: Sequence[Word]) -> Writes:
    if words and words[0].is_literal and re.fullmatch(r"[a-zA-Z]+", words[0].text):
        words = (Word("-" + words[0].text), *words[1:])
    parsed = parse_options(name, TAR, words, takes_globs=True)
    creates, extracts = parsed.has_option("-c", "--create"), parsed.has_option("-x", "--extract", "--get")
    archives, folders = parsed.values("-f", "--file"), parsed.values("-C", "--directory")
    if creates == extracts or len(archives) > 1 or any(":" in word.text for word in archives):
        raise UnprovedCommand("what `tar` does is not in its words")
    if creates:
        return write_files(name, archives)
    if len(folders) > 1:
        raise UnprovedCommand("`tar` takes files out into several folders")
    return extract_to(name, folders[0] if folders else Word("."))


SEVEN_ZIP_OPTION = re.compile(
    r"-(?:y|r|bd|bb[0-3]|bso0|bse0|bsp0|ao[asut]|m\w+(?:=\w+)?|t(?:7z|zip|tar|gzip|xz|bzip2)|p\S*)"
)


def write_seven_zip(name: str, words: Sequence[Word]) -> Writes:
    """Return the writes of `7z a ARCHIVE FILE…` and `7z x ARCHIVE -oFOLDER`. A word `@FILE` is a list of names."""
    check_no_at_files(name, words)
    if not words or not all(word.is_literal for word in words):
        raise UnprovedCommand(f"a word of `{name}` is not literal")
    verb, rest = words[0].text, words[1:]
    folders = [word.text[2:] for word in rest if word.text.startswith("-o")]
    options = [word.text for word in rest if word.text.startswith("-") and not word.text.startswith("-o")]
    operands = [word for word in rest if not word.text.startswith("-")]
    if not all(SEVEN_ZIP_OPTION.fullmatch(option) for option in options) or not operands or len(folders) > 1:
        raise UnprovedCommand(f"`{name}` is not on the tables with these words")
    if verb in ("l", "t"):
        return ()
    if verb in ("x", "e"):
        return extract_to(name, Word(folders[0] if folders else "."))
    if verb not in ("a", "u", "d") or folders:
        raise UnprovedCommand(f"what `{name} {verb}` does is not on the tables")
    archive = operands[0].text
    has_suffix = "." in archive.rpartition("/")[2]
    if not has_suffix and any(option.startswith("-t") for option in options):
        raise UnprovedCommand(f"the name that `{name}` gives to {archive!r} is not on the tables")
    return write_all(name, (Word(archive if has_suffix else f"{archive}.7z"),))


def write_unrar(name: str, words: Sequence[Word]) -> Writes:
    rest = [word for word in words if word.text not in ("-y", "-o+", "-o-", "-idq", "-inul")]
    if not all(word.is_literal and word.text and not word.may_be_option for word in rest):
        raise UnprovedCommand(f"a word of `{name}` is not literal, or may be an option")
    verb, *operands = [word.text for word in rest] or [""]
    if verb in ("l", "t", "v", "lb"):
        return ()
    folder = operands[1] if len(operands) == 2 else "./"
    if verb not in ("x", "e") or len(operands) not in (1, 2) or not folder.endswith("/"):
        raise UnprovedCommand(f"`{name}` is not on the tables with these words")
    return extract_to(name, Word(folder))


def write_cpio(name: str, words: Sequence[Word]) -> Writes:
    long = "create extract no-absolute-filenames make-directories unconditional verbose quiet null"
    parsed = parse_options(name, OptionRow("oidmuvB0", "HFO", long, "format file"), words)
    archives = parsed.values("-F", "-O", "--file")
    if parsed.operands or any(":" in word.text for word in archives):
        raise UnprovedCommand(f"`{name}` is not on the tables with these words")
    if parsed.has_option("-i", "--extract"):
        if not parsed.has_option("--no-absolute-filenames"):
            raise UnprovedCommand(f"where `{name} -i` puts files is not in its words")
        return extract_to(name, Word("."))
    if not parsed.has_option("-o", "--create"):
        raise UnprovedCommand(f"what `{name}` does is not in its words")
    return write_all(name, archives)


def write_ar(name: str, words: Sequence[Word]) -> Writes:
    check_no_at_files(name, words)
    found = re.fullmatch(r"-?([a-zA-Z]+)", words[0].text) if words and words[0].is_literal else None
    letters = set(found[1]) if found else set[str]()
    verbs = letters & set("dmqrtpx") or letters & {"s"}
    if len(words) < 2 or len(verbs) != 1 or not letters <= set("dmqrtpxcsSuvDU") or words[1].may_be_option:
        raise UnprovedCommand(f"`{name}` is not on the tables with these words")
    if verbs & {"t", "p"}:
        return ()
    return extract_to(name, Word(".")) if "x" in verbs else write_all(name, words[1:2])


def write_jar(name: str, words: Sequence[Word]) -> Writes:
    check_no_at_files(name, words)
    letters = words[0].text.removeprefix("-") if words and words[0].is_literal else ""
    if len(words) < 2 or not re.fullmatch(r"(?=.*f)[cxtu][fv0M]+", letters):
        raise UnprovedCommand(f"`{name}` is not on the tables with these words")
    folders = [word for word in words[2:] if word.text == "-C" and word.is_literal]
    if len(folders) != sum(word.may_be_option for word in words[1:]) or (folders and letters[0] not in "cu"):
        raise UnprovedCommand(f"an option of `{name}` is not on the tables")
    if letters[0] == "t":
        return ()
    return extract_to(name, Word(".")) if letters[0] == "x" else write_all(name, words[1:2])


PACKED_READER = OptionRow("tlvq", "", "list quiet test verbose", required="--list --test -l -t", reads="all")

PROGRAMS = rows({
    "zcat": Program(reads=OptionRow("fq", reads="all")),
    "gzip": Program(reads=PACKED_READER, writes=packer_row(".gz")),
    "xz": Program(reads=PACKED_READER, writes=packer_row(".xz", "0123456789")),
    "bzip2": Program(reads=OptionRow("tvq", "", "test", required="--test -t", reads="all"), writes=packer_row(".bz2")),
    "zipinfo": Program(reads=OptionRow("12smlvht")),
    "unzip": Program(reads=OptionRow("ltvqZ", required="-Z -l -t -v"), writes=WriterRow(OptionRow("oqnjuL", "d"),
        "none", folders="-d")),
    "cpio": Program(reads=OptionRow("itvn", "", "list quiet verbose", operands=0, required="--list -t"),
        writes=write_cpio),
    "tar": Program(reads=read_tar, writes=write_tar, version_options="--version"),
    "gunzip": Program(writes=packer_row(".gz")),
    "bunzip2": Program(writes=packer_row(".bz2")),
    "unxz": Program(writes=packer_row(".xz")),
    "lzma": Program(writes=packer_row(".lzma", "0123456789")),
    "unlzma": Program(writes=packer_row(".lzma")),
    "lzip": Program(writes=packer_row(".lz", "0123456789")),
    "compress uncompress": Program(writes=WriterRow(OptionRow("cfv"), "packed", idle="-c", follows_links=False,
        suffix=".Z")),
    "pigz": Program(writes=packer_row(".gz", "0123456789", "pb")),
    "unpigz": Program(writes=packer_row(".gz", valued="p")),
    "pbzip2": Program(writes=packer_row(".bz2", valued="p")),
    "zstd unzstd zstdmt": Program(writes=packer_row(".zst", valued="T", outputs="-o")),
    "lz4 unlz4": Program(writes=packer_row(".lz4")),
    "brotli": Program(writes=WriterRow(OptionRow("0123456789dfkcjnvtZ", "qw",
        "best decompress force keep rm stdout test verbose", "lgwin quality"), "packed", outputs="--output -o",
        idle="--stdout --test -c -t", follows_links=False, suffix=".br")),
    "zip": Program(writes=WriterRow(OptionRow("rqjv0123456789X"), "first", suffix=".zip")),
    "7z 7za 7zr 7zz": Program(writes=write_seven_zip),
    "unrar": Program(writes=write_unrar),
    "ar": Program(writes=write_ar),
    "jar": Program(writes=write_jar),
})  # fmt: skip
