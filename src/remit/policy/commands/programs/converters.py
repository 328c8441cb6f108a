"""Programs that make one file out of others: each answers what it writes, or raises Refused.

Many of them take long options behind one dash, which the rows of the table do not know.

Source: the manuals of OpenSSL 3.2, OpenSSH 9.6, FFmpeg 7, libwebp 1.4, pandoc 3.1, poppler 24, SQLite 3.45, HTML Tidy
5.8, e2fsprogs 1.47, Docker 27, Terraform 1.9, read 2026-11.
"""

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.policy.commands.parse.options import OptionRow, ParsedOptions, parse_options, word_set
from remit.policy.commands.parse.words import UnprovedCommand, Word
from remit.policy.commands.programs.effects import Write, write_to
from remit.policy.commands.programs.writer_rows import find_row_writes, named_files
from remit.policy.commands.programs.writers import WRITERS

Writes: TypeAlias = tuple[Write, ...]


class DashedOptions(Struct, frozen=True):
    """Options of a program that are whole words behind one dash: plain ones, and those that take the next word."""

    flags: frozenset[str]
    valued: frozenset[str]

    def parse(self, program: str, words: Sequence[Word]) -> tuple[Mapping[str, tuple[Word, ...]], tuple[Word, ...]]:
        """The values by option, and the operands; raises Refused."""
        values: dict[str, tuple[Word, ...]] = {}
        operands: list[Word] = []
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if not word.may_be_option or (word.is_literal and word.text == "-"):
                operands.append(word)
            elif word.is_literal and word.text in self.flags:
                values.setdefault(word.text, ())
            elif word.is_literal and word.text in self.valued and rest and rest[0].is_single:
                values[word.text] = (*values.get(word.text, ()), rest.pop(0))
            else:
                raise UnprovedCommand(f"{word.text!r} of `{program}` is not on the tables")
        return values, tuple(operands)


def dashed_options(flags: str, valued: str = "") -> DashedOptions:
    """The options, their dash left out here."""
    return DashedOptions(
        frozenset(f"-{option}" for option in flags.split()), frozenset(f"-{option}" for option in valued.split())
    )


# Keys, databases, documents, pictures

OPENSSL_OPTIONS = dashed_options(
    "noout text nodes x509 new hex base64 d e a salt pbkdf2 pubout pubin subject issuer dates fingerprint startdate "
    "enddate modulus sha1 sha256 sha512 md5 aes-128-cbc aes-256-cbc",
    "in out keyout newkey days subj key passin passout pass iter addext inform outform algorithm pkeyopt",
)
OPENSSL_VERBS = word_set("genrsa genpkey rand rsa pkey x509 req dgst enc version")


def write_openssl(name: str, words: Sequence[Word]) -> Writes:
    verb = words[0].text if words and words[0].is_literal else ""
    if verb not in OPENSSL_VERBS:
        raise UnprovedCommand(f"what `{name} {verb}` does is not on the tables")
    values, _ = OPENSSL_OPTIONS.parse(name, words[1:])
    if verb == "req" and "-keyout" not in values and ("-newkey" in values or "-key" not in values):
        raise UnprovedCommand(f"`{name} req` may write a key to a name of its own")
    return named_files(name, (*values.get("-out", ()), *values.get("-keyout", ())))


def write_ssh_keygen(name: str, words: Sequence[Word]) -> Writes:
    taken = parse_options(name, OptionRow("qlyvp", "tbCNfPma", required=word_set("-f")), words)
    if taken.operands:
        raise UnprovedCommand(f"`{name}` is not on the tables with these words")
    keys = named_files(name, taken.values("-f"))
    if taken.has_option("-l", "-y"):
        return ()
    return (*keys, *(replace(key, path=f"{key.path}.pub") for key in keys))


CHANGING_SQL = re.compile(r"\s*(?:create|insert|update|delete|drop|alter|begin|replace)\b", re.IGNORECASE)
REACHING_SQL = re.compile(
    r"^\s*\.|\battach\b|load_extension|writefile|\bedit\s*\(|\bvacuum\b|tokenizer|\bpragma\b|\bvirtual\b|zipfile",
    re.IGNORECASE | re.MULTILINE,
)
"""What makes SQLite write elsewhere, or run a program."""


def write_sqlite(name: str, words: Sequence[Word]) -> Writes:
    """`sqlite3 FILE 'SQL'`, where the SQL changes something. What only asks stays unknown: it may be read anywhere."""
    flags = dashed_options("header noheader csv json line list column table markdown box batch bail html tabs quote")
    _, operands = flags.parse(name, words)
    database, *scripts = operands or (Word(":"),)
    if not all(word.is_literal for word in operands) or ":" in database.text or not scripts:
        raise UnprovedCommand(f"what `{name}` does is not in its words")
    if not any(CHANGING_SQL.match(word.text) for word in scripts) or any(
        REACHING_SQL.search(word.text) for word in scripts
    ):
        raise UnprovedCommand(f"what `{name}` reads or writes is not in its words")
    file = replace(write_to(database, name), edits_in_place=True)
    return (file, *(replace(file, path=file.path + suffix) for suffix in ("-journal", "-wal", "-shm")))


FFMPEG_OPTIONS = dashed_options(
    "y n hide_banner nostdin nostats stats vn an sn dn shortest",
    "i ss t to c c:v c:a codec:v codec:a vcodec acodec b:v b:a r s q:a q:v qscale:v crf preset frames:v vframes "
    "loglevel map ar ac pix_fmt threads movflags aspect tune",
)
MEDIA_SUFFIXES = word_set(
    ".mp4 .mkv .mov .webm .avi .mp3 .wav .flac .ogg .opus .m4a .aac .gif .png .jpg .jpeg .webp .ts .mpg"
)
"""Kinds of output that are one file. Playlists bring their parts."""


def write_ffmpeg(name: str, words: Sequence[Word]) -> Writes:
    _, outputs = FFMPEG_OPTIONS.parse(name, words)
    for word in outputs:
        kind = posixpath.splitext(word.text)[1].lower()
        if (
            not word.is_literal
            or "%" in word.text
            or ":" in word.text
            or (word.text != "-" and kind not in MEDIA_SUFFIXES)
        ):
            raise UnprovedCommand(f"what `{name}` makes of {word.text!r} is not on the tables")
    return named_files(name, outputs)


WEBP_OPTIONS = dashed_options("lossless quiet mt exact short noalpha v", "q z m o alpha_q preset f sns")


def write_webp(name: str, words: Sequence[Word]) -> Writes:
    return named_files(name, WEBP_OPTIONS.parse(name, words)[0].get("-o", ()))


PANDOC_OPTIONS = OptionRow(
    "sN",
    "oftMVrw",
    long=word_set("standalone toc table-of-contents number-sections section-divs"),
    long_valued=word_set("output from to read write metadata variable wrap columns toc-depth shift-heading-level-by"),
)


def write_pandoc(name: str, words: Sequence[Word]) -> Writes:
    """Not to PDF, which runs other programs, and not by formats that are scripts."""
    taken = parse_options(name, PANDOC_OPTIONS, words)
    formats = taken.values("-f", "-t", "-r", "-w", "--from", "--to", "--read", "--write")
    outputs = taken.values("-o", "--output")
    if not all(word.is_literal and re.fullmatch(r"(?!pdf)[a-z0-9_]+(?:[+-][a-z_]+)*", word.text) for word in formats):
        raise UnprovedCommand(f"a format of `{name}` is not on the tables")
    if not all(word.is_literal and not word.text.lower().endswith(".pdf") for word in outputs):
        raise UnprovedCommand(f"`{name}` runs other programs for a PDF")
    return named_files(name, outputs)


PDFTOTEXT_OPTIONS = dashed_options("layout raw nopgbrk q", "f l enc eol r x y W H")


def write_pdftotext(name: str, words: Sequence[Word]) -> Writes:
    """`pdftotext IN [OUT]`."""
    _, operands = PDFTOTEXT_OPTIONS.parse(name, words)
    if len(operands) not in (1, 2) or not all(word.is_literal for word in operands):
        raise UnprovedCommand(f"`{name}` without one or two files")
    if len(operands) == 2:
        return named_files(name, operands[1:])
    return (write_to(Word(re.sub(r"\.(?:pdf|PDF)$", "", operands[0].text) + ".txt"), name),)


TIDY_OPTIONS = dashed_options("i indent q quiet m modify asxml asxhtml utf8 e errors", "o output f file wrap w")


def write_tidy(name: str, words: Sequence[Word]) -> Writes:
    values, operands = TIDY_OPTIONS.parse(name, words)
    outputs = [word for option in ("-o", "-output", "-f", "-file") for word in values.get(option, ())]
    changed = operands if {"-m", "-modify"} & set(values) else ()
    return (*named_files(name, outputs), *(replace(write, edits_in_place=True) for write in named_files(name, changed)))


TERRAFORM_OPTIONS = dashed_options("check diff recursive no-color")


def write_terraform(name: str, words: Sequence[Word]) -> Writes:
    """`terraform fmt`."""
    if not words or words[0].text != "fmt" or not words[0].is_literal:
        raise UnprovedCommand(f"what `{name}` does is not on the tables")
    values, operands = TERRAFORM_OPTIONS.parse(f"{name} fmt", words[1:])
    if "-check" in values:
        return ()
    found = (write_to(word, name) for word in operands or (Word("."),))
    return tuple(replace(write, is_recursive=True, edits_in_place=True, is_optional=True) for write in found)


# Copies and attributes


def write_install(name: str, words: Sequence[Word]) -> Writes:
    """`install -d FOLDER…` makes folders."""
    known = WRITERS["install"].options
    row = replace(known, flags=known.flags + "d", long=word_set("directory verbose"))
    if not any(word.is_literal and re.fullmatch(r"-[a-zA-Z]*d\w*|--directory", word.text) for word in words):
        return find_row_writes(name, WRITERS["install"], words)
    taken = parse_options(name, row, words)
    if not taken.has_option("-d", "--directory"):
        raise UnprovedCommand(f"`{name}` is not on the tables with these words")
    return tuple(replace(write_to(word, name), edits_in_place=True, makes_folder=True) for word in taken.operands)


def check_local(program: str, parsed: ParsedOptions) -> None:
    """No word names another machine, or a container; raises Refused."""
    if not all(word.is_literal and ":" not in word.text for word in parsed.operands):
        raise UnprovedCommand(f"`{program}` with another machine, or with what is not in the text")


SCP_WRITER = replace(
    WRITERS["cp"], options=OptionRow("rpqCTOv346"), folder_options=frozenset(), recursive_options=word_set("-r")
)


def write_scp(name: str, words: Sequence[Word]) -> Writes:
    """Between folders of this machine."""
    check_local(name, parse_options(name, SCP_WRITER.options, words))
    return find_row_writes(name, SCP_WRITER, words)


def write_docker(name: str, words: Sequence[Word]) -> Writes:
    """`docker cp CONTAINER:PATH FOLDER`."""
    rest = words[1:] if words and words[0].text == "container" else words
    if not rest or rest[0].text != "cp" or not rest[0].is_literal:
        raise UnprovedCommand(f"what `{name}` does is not on the tables")
    taken = parse_options(f"{name} cp", OptionRow("aLq", long=word_set("archive follow-link quiet")), rest[1:])
    if len(taken.operands) != 2:
        raise UnprovedCommand(f"`{name} cp` without a source and a target")
    source, target = taken.operands
    check_local(name, ParsedOptions((), (target,)))
    if not source.is_literal or ":" not in source.text:
        raise UnprovedCommand(f"what `{name} cp` copies is not in the text")
    into = posixpath.basename(source.text.rstrip("/"))
    return tuple(
        replace(write, names_inside=(into,), adds_names=True, may_be_link=True)
        for write in named_files(name, (target,))
    )


def write_chattr(name: str, words: Sequence[Word]) -> Writes:
    """`chattr [-RVf] MODE FILE…`, where a mode may begin with a dash."""
    rest = list(words)
    deep = False
    while rest and rest[0].is_literal and re.fullmatch(r"-[RVf]+", rest[0].text):
        deep |= "R" in rest.pop(0).text
    if not rest or not rest[0].is_literal or not re.fullmatch(r"[-+=][a-zA-Z]+", rest[0].text):
        raise UnprovedCommand(f"the mode of `{name}` is not in the text")
    if any(word.may_be_option for word in rest[1:]):
        raise UnprovedCommand(f"a word of `{name}` may become any option")
    return tuple(replace(write_to(word, name), is_recursive=deep, edits_in_place=True) for word in rest[1:])


PRODUCERS: dict[str, Callable[[str, Sequence[Word]], Writes]] = {
    "openssl": write_openssl,
    "ssh-keygen": write_ssh_keygen,
    "sqlite3": write_sqlite,
    "ffmpeg": write_ffmpeg,
    "cwebp": write_webp,
    "dwebp": write_webp,
    "pandoc": write_pandoc,
    "pdftotext": write_pdftotext,
    "tidy": write_tidy,
    **dict.fromkeys(("terraform", "tofu"), write_terraform),
    "install": write_install,
    "scp": write_scp,
    "docker": write_docker,
    "chattr": write_chattr,
}
