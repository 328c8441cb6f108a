"""Converters: programs making a file out of files: documents, pictures, sound, keys.

Many converters take long options behind a single dash, unknown to the rows of the table.

Source: the manuals of OpenSSL 3.2, OpenSSH 9.6, FFmpeg 7, libwebp 1.4, pandoc 3.1, poppler 24, HTML Tidy 5.8,
read 2026-11.
"""

import posixpath
import re
from collections.abc import Sequence

from msgspec.structs import replace

from remit.policy.commands.programs.row import Program, WriterRow, Writes, rows, write_all, write_files
from remit.policy.commands.words import (
    OptionRow,
    UnprovedCommand,
    Word,
    dashed_options,
    parse_dashed,
    parse_options,
    word_set,
)

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
    values, _ = parse_dashed(name, OPENSSL_OPTIONS, words[1:])
    if verb == "req" and "-keyout" not in values and ("-newkey" in values or "-key" not in values):
        raise UnprovedCommand(f"`{name} req` may write a key to a name of its own")
    return write_files(name, (*values.get("-out", ()), *values.get("-keyout", ())))


def write_ssh_keygen(name: str, words: Sequence[Word]) -> Writes:
    parsed = parse_options(name, OptionRow("qlyvp", "tbCNfPma", required="-f"), words)
    if parsed.operands:
        raise UnprovedCommand(f"`{name}` is not on the tables with these words")
    keys = write_files(name, parsed.values("-f"))
    if parsed.has_option("-l", "-y"):
        return ()
    return (*keys, *(replace(key, path=f"{key.path}.pub") for key in keys))


FFMPEG_OPTIONS = dashed_options(
    "y n hide_banner nostdin nostats stats vn an sn dn shortest",
    "i ss t to c c:v c:a codec:v codec:a vcodec acodec b:v b:a r s q:a q:v qscale:v crf preset frames:v vframes "
    "loglevel map ar ac pix_fmt threads movflags aspect tune",
)

MEDIA_SUFFIXES = word_set(
    ".mp4 .mkv .mov .webm .avi .mp3 .wav .flac .ogg .opus .m4a .aac .gif .png .jpg .jpeg .webp .ts .mpg"
)
"""Kinds of output that are one file. A playlist comes with its parts."""


def write_ffmpeg(name: str, words: Sequence[Word]) -> Writes:
    _, outputs = parse_dashed(name, FFMPEG_OPTIONS, words)
    for word in outputs:
        kind = posixpath.splitext(word.text)[1].lower()
        odd = "%" in word.text or ":" in word.text or (word.text != "-" and kind not in MEDIA_SUFFIXES)
        if not word.is_literal or odd:
            raise UnprovedCommand(f"what `{name}` makes of {word.text!r} is not on the tables")
    return write_files(name, outputs)


WEBP_OPTIONS = dashed_options("lossless quiet mt exact short noalpha v", "q z m o alpha_q preset f sns")


def write_webp(name: str, words: Sequence[Word]) -> Writes:
    return write_files(name, parse_dashed(name, WEBP_OPTIONS, words)[0].get("-o", ()))


PANDOC_OPTIONS = OptionRow("sN", "oftMVrw", "standalone toc table-of-contents number-sections section-divs",
    "output from to read write metadata variable wrap columns toc-depth shift-heading-level-by")  # fmt: skip


def write_pandoc(name: str, words: Sequence[Word]) -> Writes:
    parsed = parse_options(name, PANDOC_OPTIONS, words)
    formats = parsed.values("-f", "-t", "-r", "-w", "--from", "--to", "--read", "--write")
    outputs = parsed.values("-o", "--output")
    if not all(word.is_literal and re.fullmatch(r"(?!pdf)[a-z0-9_]+(?:[+-][a-z_]+)*", word.text) for word in formats):
        raise UnprovedCommand(f"a format of `{name}` is not on the tables")
    if not all(word.is_literal and not word.text.lower().endswith(".pdf") for word in outputs):
        raise UnprovedCommand(f"`{name}` runs other programs for a PDF")
    return write_files(name, outputs)


PDFTOTEXT_OPTIONS = dashed_options("layout raw nopgbrk q", "f l enc eol r x y W H")


def write_pdftotext(name: str, words: Sequence[Word]) -> Writes:
    _, operands = parse_dashed(name, PDFTOTEXT_OPTIONS, words)
    if len(operands) not in (1, 2) or not all(word.is_literal for word in operands):
        raise UnprovedCommand(f"`{name}` without one or two files")
    named = Word(re.sub(r"\.(?:pdf|PDF)$", "", operands[0].text) + ".txt")
    return write_files(name, operands[1:]) if len(operands) == 2 else write_all(name, (named,))


PROGRAMS = rows({
    "rsvg-convert": Program(writes=WriterRow(OptionRow("ak", "whxyzdpfb", "keep-aspect-ratio",
        "format height width zoom"), "none", outputs="--output -o")),
    "xmllint": Program(writes=WriterRow(OptionRow("", "", "c14n format huge noblanks nonet noout recover valid",
        "encode schema xpath"), "none", outputs="--output -o")),
    "dot neato fdp sfdp circo twopi": Program(writes=WriterRow(OptionRow("vq", "TKGNE"), "none", outputs="-o")),
    "htpasswd": Program(writes=WriterRow(OptionRow("cbBmdsp5iDvn", "Cr"), "first", idle="-n -v")),
    "jpegoptim": Program(writes=WriterRow(OptionRow("fopqtvs", "mTS",
        "all-normal all-progressive force preserve quiet strip-all", "max size"), edits_in_place=True)),
    "openssl": Program(writes=write_openssl, roles="sender"),
    "ssh-keygen": Program(writes=write_ssh_keygen),
    "ffmpeg": Program(writes=write_ffmpeg),
    "cwebp dwebp": Program(writes=write_webp),
    "pandoc": Program(writes=write_pandoc),
    "pdftotext": Program(writes=write_pdftotext),
})  # fmt: skip
