"""Programs that put files into archives and take them out: each answers what it writes, or raises Refused.

Source: the manuals of 7-Zip 24, RAR 7, GNU cpio 2.14, GNU binutils 2.42 and the JDK 21, read 2026-11.
"""

import re
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from remit.policy.commands.effects import Write, written
from remit.policy.commands.options import Row, names, take
from remit.policy.commands.words import Refused, Word
from remit.policy.commands.writing import check_expanded


def taken_out(word: Word, program: str) -> Write:
    """A folder that files of an archive come into: names that the text does not tell, and links."""
    return replace(written(word, program), opens=True, links=True)


def plain(program: str, words: Sequence[Word]) -> Sequence[Word]:
    """The words, all of them literal and no options; raises Refused."""
    if not all(word.literal and word.text and not word.may_be_option for word in words):
        raise Refused(f"a word of `{program}` is not literal, or may be an option")
    return words


SEVEN_ZIP = re.compile(r"-(?:y|r|bd|bb[0-3]|bso0|bse0|bsp0|ao[asut]|m\w+(?:=\w+)?|t(?:7z|zip|tar|gzip|xz|bzip2)|p\S*)")


def _seven_zip(name: str, words: Sequence[Word]) -> tuple[Write, ...]:
    """`7z a ARCHIVE FILE…`, `7z x ARCHIVE -oFOLDER`. A word `@FILE` is a list of names: those are read only."""
    check_expanded(name, words)
    if not words or not all(word.literal for word in words):
        raise Refused(f"a word of `{name}` is not literal")
    verb, rest = words[0].text, words[1:]
    folders = [word.text[2:] for word in rest if word.text.startswith("-o")]
    options = [word.text for word in rest if word.text.startswith("-") and not word.text.startswith("-o")]
    operands = [word for word in rest if not word.text.startswith("-")]
    if not all(SEVEN_ZIP.fullmatch(option) for option in options) or not operands or len(folders) > 1:
        raise Refused(f"`{name}` is not on the tables with these words")
    if verb in ("l", "t"):
        return ()
    if verb in ("x", "e"):
        return (taken_out(Word(folders[0] if folders else "."), name),)
    if verb not in ("a", "u", "d") or folders:
        raise Refused(f"what `{name} {verb}` does is not on the tables")
    archive = written(operands[0], name)
    if "." in archive.path.rpartition("/")[2]:
        return (archive,)
    if any(option.startswith("-t") for option in options):
        raise Refused(f"the name that `{name}` gives to {archive.path!r} is not on the tables")
    return (replace(archive, path=f"{archive.path}.7z"),)


def _unrar(name: str, words: Sequence[Word]) -> tuple[Write, ...]:
    """`unrar x ARCHIVE [FOLDER/]`."""
    rest = [word for word in words if word.text not in ("-y", "-o+", "-o-", "-idq", "-inul")]
    verb, *operands = [word.text for word in plain(name, rest)] or [""]
    if verb in ("l", "t", "v", "lb"):
        return ()
    folder = operands[1] if len(operands) == 2 else "./"
    if verb not in ("x", "e") or len(operands) not in (1, 2) or not folder.endswith("/"):
        raise Refused(f"`{name}` is not on the tables with these words")
    return (taken_out(Word(folder), name),)


def _cpio(name: str, words: Sequence[Word]) -> tuple[Write, ...]:
    """`cpio -o`, and `cpio -i` where it is told to keep names below the present folder."""
    long = names("create extract no-absolute-filenames make-directories unconditional verbose quiet null")
    taken = take(name, Row("oidmuvB0", "HFO", long=long, long_valued=names("format file")), words)
    archives = taken.values("-F", "-O", "--file")
    if taken.operands or any(":" in word.text for word in archives):
        raise Refused(f"`{name}` is not on the tables with these words")
    if taken.has("-i", "--extract"):
        if not taken.has("--no-absolute-filenames"):
            raise Refused(f"where `{name} -i` puts files is not in its words")
        return (taken_out(Word("."), name),)
    if not taken.has("-o", "--create"):
        raise Refused(f"what `{name}` does is not in its words")
    return tuple(written(word, name) for word in archives)


def _ar(name: str, words: Sequence[Word]) -> tuple[Write, ...]:
    """`ar rcs ARCHIVE FILE…`, and `ar x`, which leaves the folders of names out."""
    check_expanded(name, words)
    found = re.fullmatch(r"-?([a-zA-Z]+)", words[0].text) if words and words[0].literal else None
    letters = set(found[1]) if found else set[str]()
    verbs = letters & set("dmqrtpx") or letters & {"s"}
    if len(words) < 2 or len(verbs) != 1 or not letters <= set("dmqrtpxcsSuvDU") or words[1].may_be_option:
        raise Refused(f"`{name}` is not on the tables with these words")
    if verbs & {"t", "p"}:
        return ()
    return (taken_out(Word("."), name),) if "x" in verbs else (written(words[1], name),)


def _jar(name: str, words: Sequence[Word]) -> tuple[Write, ...]:
    """`jar cf ARCHIVE FILE…`, `jar xf ARCHIVE`."""
    check_expanded(name, words)
    letters = words[0].text.removeprefix("-") if words and words[0].literal else ""
    if len(words) < 2 or not re.fullmatch(r"(?=.*f)[cxtu][fv0M]+", letters):
        raise Refused(f"`{name}` is not on the tables with these words")
    folders = [word for word in words[2:] if word.text == "-C" and word.literal]
    if len(folders) != sum(word.may_be_option for word in words[1:]) or (folders and letters[0] not in "cu"):
        raise Refused(f"an option of `{name}` is not on the tables")
    if letters[0] == "t":
        return ()
    return (taken_out(Word("."), name),) if letters[0] == "x" else (written(words[1], name),)


ARCHIVERS: dict[str, Callable[[str, Sequence[Word]], tuple[Write, ...]]] = {
    **dict.fromkeys(("7z", "7za", "7zr", "7zz"), _seven_zip),
    "unrar": _unrar,
    "cpio": _cpio,
    "ar": _ar,
    "jar": _jar,
}
