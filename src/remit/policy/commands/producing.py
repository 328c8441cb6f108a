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

from remit.policy.commands.effects import Write, written
from remit.policy.commands.options import Row, Taken, names, take
from remit.policy.commands.words import Refused, Word
from remit.policy.commands.writers import WRITERS
from remit.policy.commands.writing import files, writes_of

Writes: TypeAlias = tuple[Write, ...]


class Dashed(Struct, frozen=True):
    """Options of a program that are whole words behind one dash: plain ones, and those that take the next word."""

    flags: frozenset[str]
    valued: frozenset[str]

    def sort(self, program: str, words: Sequence[Word]) -> tuple[Mapping[str, tuple[Word, ...]], tuple[Word, ...]]:
        """The values by option, and the operands; raises Refused."""
        values: dict[str, tuple[Word, ...]] = {}
        operands: list[Word] = []
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if not word.may_be_option or (word.literal and word.text == "-"):
                operands.append(word)
            elif word.literal and word.text in self.flags:
                values.setdefault(word.text, ())
            elif word.literal and word.text in self.valued and rest and rest[0].single:
                values[word.text] = (*values.get(word.text, ()), rest.pop(0))
            else:
                raise Refused(f"{word.text!r} of `{program}` is not on the tables")
        return values, tuple(operands)


def dashed(flags: str, valued: str = "") -> Dashed:
    """The options, their dash left out here."""
    return Dashed(
        frozenset(f"-{option}" for option in flags.split()), frozenset(f"-{option}" for option in valued.split())
    )


# Keys, databases, documents, pictures

OPENSSL = dashed(
    "noout text nodes x509 new hex base64 d e a salt pbkdf2 pubout pubin subject issuer dates fingerprint startdate "
    "enddate modulus sha1 sha256 sha512 md5 aes-128-cbc aes-256-cbc",
    "in out keyout newkey days subj key passin passout pass iter addext inform outform algorithm pkeyopt",
)
OPENSSL_VERBS = names("genrsa genpkey rand rsa pkey x509 req dgst enc version")


def _openssl(name: str, words: Sequence[Word]) -> Writes:
    verb = words[0].text if words and words[0].literal else ""
    if verb not in OPENSSL_VERBS:
        raise Refused(f"what `{name} {verb}` does is not on the tables")
    values, _ = OPENSSL.sort(name, words[1:])
    if verb == "req" and "-keyout" not in values and ("-newkey" in values or "-key" not in values):
        raise Refused(f"`{name} req` may write a key to a name of its own")
    return files(name, (*values.get("-out", ()), *values.get("-keyout", ())))


def _ssh_keygen(name: str, words: Sequence[Word]) -> Writes:
    taken = take(name, Row("qlyvp", "tbCNfPma", needs=names("-f")), words)
    if taken.operands:
        raise Refused(f"`{name}` is not on the tables with these words")
    keys = files(name, taken.values("-f"))
    if taken.has("-l", "-y"):
        return ()
    return (*keys, *(replace(key, path=f"{key.path}.pub") for key in keys))


CHANGES = re.compile(r"\s*(?:create|insert|update|delete|drop|alter|begin|replace)\b", re.IGNORECASE)
REACHES = re.compile(
    r"^\s*\.|\battach\b|load_extension|writefile|\bedit\s*\(|\bvacuum\b|tokenizer|\bpragma\b|\bvirtual\b|zipfile",
    re.IGNORECASE | re.MULTILINE,
)
"""What makes SQLite write elsewhere, or run a program."""


def _sqlite(name: str, words: Sequence[Word]) -> Writes:
    """`sqlite3 FILE 'SQL'`, where the SQL changes something. What only asks stays unknown: it may be read anywhere."""
    flags = dashed("header noheader csv json line list column table markdown box batch bail html tabs quote")
    _, operands = flags.sort(name, words)
    database, *scripts = operands or (Word(":"),)
    if not all(word.literal for word in operands) or ":" in database.text or not scripts:
        raise Refused(f"what `{name}` does is not in its words")
    if not any(CHANGES.match(word.text) for word in scripts) or any(REACHES.search(word.text) for word in scripts):
        raise Refused(f"what `{name}` reads or writes is not in its words")
    file = replace(written(database, name), edits=True)
    return (file, *(replace(file, path=file.path + suffix) for suffix in ("-journal", "-wal", "-shm")))


FFMPEG = dashed(
    "y n hide_banner nostdin nostats stats vn an sn dn shortest",
    "i ss t to c c:v c:a codec:v codec:a vcodec acodec b:v b:a r s q:a q:v qscale:v crf preset frames:v vframes "
    "loglevel map ar ac pix_fmt threads movflags aspect tune",
)
MEDIA = names(".mp4 .mkv .mov .webm .avi .mp3 .wav .flac .ogg .opus .m4a .aac .gif .png .jpg .jpeg .webp .ts .mpg")
"""Kinds of output that are one file. Playlists bring their parts."""


def _ffmpeg(name: str, words: Sequence[Word]) -> Writes:
    _, outputs = FFMPEG.sort(name, words)
    for word in outputs:
        kind = posixpath.splitext(word.text)[1].lower()
        if not word.literal or "%" in word.text or ":" in word.text or (word.text != "-" and kind not in MEDIA):
            raise Refused(f"what `{name}` makes of {word.text!r} is not on the tables")
    return files(name, outputs)


WEBP = dashed("lossless quiet mt exact short noalpha v", "q z m o alpha_q preset f sns")


def _webp(name: str, words: Sequence[Word]) -> Writes:
    return files(name, WEBP.sort(name, words)[0].get("-o", ()))


PANDOC = Row(
    "sN",
    "oftMVrw",
    long=names("standalone toc table-of-contents number-sections section-divs"),
    long_valued=names("output from to read write metadata variable wrap columns toc-depth shift-heading-level-by"),
)


def _pandoc(name: str, words: Sequence[Word]) -> Writes:
    """Not to PDF, which runs other programs, and not by formats that are scripts."""
    taken = take(name, PANDOC, words)
    formats = taken.values("-f", "-t", "-r", "-w", "--from", "--to", "--read", "--write")
    outputs = taken.values("-o", "--output")
    if not all(word.literal and re.fullmatch(r"(?!pdf)[a-z0-9_]+(?:[+-][a-z_]+)*", word.text) for word in formats):
        raise Refused(f"a format of `{name}` is not on the tables")
    if not all(word.literal and not word.text.lower().endswith(".pdf") for word in outputs):
        raise Refused(f"`{name}` runs other programs for a PDF")
    return files(name, outputs)


PDFTOTEXT = dashed("layout raw nopgbrk q", "f l enc eol r x y W H")


def _pdftotext(name: str, words: Sequence[Word]) -> Writes:
    """`pdftotext IN [OUT]`."""
    _, operands = PDFTOTEXT.sort(name, words)
    if len(operands) not in (1, 2) or not all(word.literal for word in operands):
        raise Refused(f"`{name}` without one or two files")
    if len(operands) == 2:
        return files(name, operands[1:])
    return (written(Word(re.sub(r"\.(?:pdf|PDF)$", "", operands[0].text) + ".txt"), name),)


TIDY = dashed("i indent q quiet m modify asxml asxhtml utf8 e errors", "o output f file wrap w")


def _tidy(name: str, words: Sequence[Word]) -> Writes:
    values, operands = TIDY.sort(name, words)
    outputs = [word for option in ("-o", "-output", "-f", "-file") for word in values.get(option, ())]
    changed = operands if {"-m", "-modify"} & set(values) else ()
    return (*files(name, outputs), *(replace(write, edits=True) for write in files(name, changed)))


TERRAFORM = dashed("check diff recursive no-color")


def _terraform(name: str, words: Sequence[Word]) -> Writes:
    """`terraform fmt`."""
    if not words or words[0].text != "fmt" or not words[0].literal:
        raise Refused(f"what `{name}` does is not on the tables")
    values, operands = TERRAFORM.sort(f"{name} fmt", words[1:])
    if "-check" in values:
        return ()
    found = (written(word, name) for word in operands or (Word("."),))
    return tuple(replace(write, below=True, edits=True, maybe=True) for write in found)


# Copies and attributes


def _install(name: str, words: Sequence[Word]) -> Writes:
    """`install -d FOLDER…` makes folders."""
    known = WRITERS["install"].row
    row = replace(known, flags=known.flags + "d", long=names("directory verbose"))
    if not any(word.literal and re.fullmatch(r"-[a-zA-Z]*d\w*|--directory", word.text) for word in words):
        return writes_of(name, WRITERS["install"], words)
    taken = take(name, row, words)
    if not taken.has("-d", "--directory"):
        raise Refused(f"`{name}` is not on the tables with these words")
    return tuple(replace(written(word, name), edits=True, makes=True) for word in taken.operands)


def local(program: str, taken: Taken) -> None:
    """No word names another machine, or a container; raises Refused."""
    if not all(word.literal and ":" not in word.text for word in taken.operands):
        raise Refused(f"`{program}` with another machine, or with what is not in the text")


SCP = replace(WRITERS["cp"], row=Row("rpqCTOv346"), folders=frozenset(), deep=names("-r"))


def _scp(name: str, words: Sequence[Word]) -> Writes:
    """Between folders of this machine."""
    local(name, take(name, SCP.row, words))
    return writes_of(name, SCP, words)


def _docker(name: str, words: Sequence[Word]) -> Writes:
    """`docker cp CONTAINER:PATH FOLDER`."""
    rest = words[1:] if words and words[0].text == "container" else words
    if not rest or rest[0].text != "cp" or not rest[0].literal:
        raise Refused(f"what `{name}` does is not on the tables")
    taken = take(f"{name} cp", Row("aLq", long=names("archive follow-link quiet")), rest[1:])
    if len(taken.operands) != 2:
        raise Refused(f"`{name} cp` without a source and a target")
    source, target = taken.operands
    local(name, Taken((), (target,)))
    if not source.literal or ":" not in source.text:
        raise Refused(f"what `{name} cp` copies is not in the text")
    into = posixpath.basename(source.text.rstrip("/"))
    return tuple(replace(write, into=(into,), opens=True, links=True) for write in files(name, (target,)))


def _chattr(name: str, words: Sequence[Word]) -> Writes:
    """`chattr [-RVf] MODE FILE…`, where a mode may begin with a dash."""
    rest = list(words)
    deep = False
    while rest and rest[0].literal and re.fullmatch(r"-[RVf]+", rest[0].text):
        deep |= "R" in rest.pop(0).text
    if not rest or not rest[0].literal or not re.fullmatch(r"[-+=][a-zA-Z]+", rest[0].text):
        raise Refused(f"the mode of `{name}` is not in the text")
    if any(word.may_be_option for word in rest[1:]):
        raise Refused(f"a word of `{name}` may become any option")
    return tuple(replace(written(word, name), below=deep, edits=True) for word in rest[1:])


PRODUCERS: dict[str, Callable[[str, Sequence[Word]], Writes]] = {
    "openssl": _openssl,
    "ssh-keygen": _ssh_keygen,
    "sqlite3": _sqlite,
    "ffmpeg": _ffmpeg,
    "cwebp": _webp,
    "dwebp": _webp,
    "pandoc": _pandoc,
    "pdftotext": _pdftotext,
    "tidy": _tidy,
    **dict.fromkeys(("terraform", "tofu"), _terraform),
    "install": _install,
    "scp": _scp,
    "docker": _docker,
    "chattr": _chattr,
}
