"""Programs that put files into archives and take them out: each answers what it writes, or raises Refused.

Source: the manuals of 7-Zip 24, RAR 7, GNU cpio 2.14, GNU binutils 2.42 and the JDK 21, read 2026-11.
"""

import re
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from remit.policy.commands.parse.options import OptionRow, parse_options, word_set
from remit.policy.commands.parse.words import UnprovedCommand, Word
from remit.policy.commands.programs.effects import Write, write_to
from remit.policy.commands.programs.writer_rows import check_no_at_files


def extraction_folder(word: Word, program: str) -> Write:
    """A folder that files of an archive come into: names that the text does not tell, and links."""
    return replace(write_to(word, program), adds_names=True, may_be_link=True)


def check_plain_words(program: str, words: Sequence[Word]) -> Sequence[Word]:
    """The words, all of them literal and no options; raises Refused."""
    if not all(word.is_literal and word.text and not word.may_be_option for word in words):
        raise UnprovedCommand(f"a word of `{program}` is not literal, or may be an option")
    return words


SEVEN_ZIP_OPTION = re.compile(
    r"-(?:y|r|bd|bb[0-3]|bso0|bse0|bsp0|ao[asut]|m\w+(?:=\w+)?|t(?:7z|zip|tar|gzip|xz|bzip2)|p\S*)"
)


def write_seven_zip(name: str, words: Sequence[Word]) -> tuple[Write, ...]:
    """`7z a ARCHIVE FILE…`, `7z x ARCHIVE -oFOLDER`. A word `@FILE` is a list of names: those are read only."""
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
        return (extraction_folder(Word(folders[0] if folders else "."), name),)
    if verb not in ("a", "u", "d") or folders:
        raise UnprovedCommand(f"what `{name} {verb}` does is not on the tables")
    archive = write_to(operands[0], name)
    if "." in archive.path.rpartition("/")[2]:
        return (archive,)
    if any(option.startswith("-t") for option in options):
        raise UnprovedCommand(f"the name that `{name}` gives to {archive.path!r} is not on the tables")
    return (replace(archive, path=f"{archive.path}.7z"),)


def write_unrar(name: str, words: Sequence[Word]) -> tuple[Write, ...]:
    """`unrar x ARCHIVE [FOLDER/]`."""
    rest = [word for word in words if word.text not in ("-y", "-o+", "-o-", "-idq", "-inul")]
    verb, *operands = [word.text for word in check_plain_words(name, rest)] or [""]
    if verb in ("l", "t", "v", "lb"):
        return ()
    folder = operands[1] if len(operands) == 2 else "./"
    if verb not in ("x", "e") or len(operands) not in (1, 2) or not folder.endswith("/"):
        raise UnprovedCommand(f"`{name}` is not on the tables with these words")
    return (extraction_folder(Word(folder), name),)


def write_cpio(name: str, words: Sequence[Word]) -> tuple[Write, ...]:
    """`cpio -o`, and `cpio -i` where it is told to keep names below the present folder."""
    long = word_set("create extract no-absolute-filenames make-directories unconditional verbose quiet null")
    taken = parse_options(name, OptionRow("oidmuvB0", "HFO", long=long, long_valued=word_set("format file")), words)
    archives = taken.values("-F", "-O", "--file")
    if taken.operands or any(":" in word.text for word in archives):
        raise UnprovedCommand(f"`{name}` is not on the tables with these words")
    if taken.has_option("-i", "--extract"):
        if not taken.has_option("--no-absolute-filenames"):
            raise UnprovedCommand(f"where `{name} -i` puts files is not in its words")
        return (extraction_folder(Word("."), name),)
    if not taken.has_option("-o", "--create"):
        raise UnprovedCommand(f"what `{name}` does is not in its words")
    return tuple(write_to(word, name) for word in archives)


def write_ar(name: str, words: Sequence[Word]) -> tuple[Write, ...]:
    """`ar rcs ARCHIVE FILE…`, and `ar x`, which leaves the folders of names out."""
    check_no_at_files(name, words)
    found = re.fullmatch(r"-?([a-zA-Z]+)", words[0].text) if words and words[0].is_literal else None
    letters = set(found[1]) if found else set[str]()
    verbs = letters & set("dmqrtpx") or letters & {"s"}
    if len(words) < 2 or len(verbs) != 1 or not letters <= set("dmqrtpxcsSuvDU") or words[1].may_be_option:
        raise UnprovedCommand(f"`{name}` is not on the tables with these words")
    if verbs & {"t", "p"}:
        return ()
    return (extraction_folder(Word("."), name),) if "x" in verbs else (write_to(words[1], name),)


def write_jar(name: str, words: Sequence[Word]) -> tuple[Write, ...]:
    """`jar cf ARCHIVE FILE…`, `jar xf ARCHIVE`."""
    check_no_at_files(name, words)
    letters = words[0].text.removeprefix("-") if words and words[0].is_literal else ""
    if len(words) < 2 or not re.fullmatch(r"(?=.*f)[cxtu][fv0M]+", letters):
        raise UnprovedCommand(f"`{name}` is not on the tables with these words")
    folders = [word for word in words[2:] if word.text == "-C" and word.is_literal]
    if len(folders) != sum(word.may_be_option for word in words[1:]) or (folders and letters[0] not in "cu"):
        raise UnprovedCommand(f"an option of `{name}` is not on the tables")
    if letters[0] == "t":
        return ()
    return (extraction_folder(Word("."), name),) if letters[0] == "x" else (write_to(words[1], name),)


ARCHIVERS: dict[str, Callable[[str, Sequence[Word]], tuple[Write, ...]]] = {
    **dict.fromkeys(("7z", "7za", "7zr", "7zz"), write_seven_zip),
    "unrar": write_unrar,
    "cpio": write_cpio,
    "ar": write_ar,
    "jar": write_jar,
}
