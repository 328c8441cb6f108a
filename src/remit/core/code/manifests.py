"""Requirements declared in manifests of Python, JavaScript, Rust and Go, and their ranges of versions.

A version is a point; a range consists of pieces between cuts just before or just after a point. Sources: the Python
packaging specifications (version specifiers), node-semver's README, the Cargo book on dependencies, read 2026-11.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct

from remit.core.code.source_text import UncheckableContent, decode_text, split_text_lines

Dialect: TypeAlias = Literal["python", "npm", "cargo", "go", "any"]
Key: TypeAlias = tuple[tuple[int, ...], int, str]
"""Release numbers without trailing zeros; 0 for a pre-release, 1 for a release; the pre-release label."""
Cut: TypeAlias = tuple[Key, int]
"""A cut before (0) or after (1) a version."""
MAX_RANGE_CHARS = 500
VERSION = re.compile(
    r"[v=]?\s*(\d{1,9}(?:\.\d{1,9}){0,5})((?:[-.]?(?:a|b|c|rc|alpha|beta|pre|dev)|-)[\w.-]*)?(?:\+[\w.-]*)?\Z"
)
PIECE = re.compile(r"\s*(===|~=|==|!=|>=|<=|~>|\^|~|>|<|=)?\s*([^\s,|<>=!~^]+)\s*,?")
HYPHEN = re.compile(r"\s*([^\s,|]+)\s+-\s+([^\s,|]+)\s*\Z")
LOWEST: Cut = (((), 0, ""), 0)
HIGHEST: Cut = (((10**12,), 1, ""), 1)


class InvalidRange(ValueError):
    """Error for text that is not a version range. The message is a clause."""


class VersionRange(Struct, frozen=True):
    """Versions between cuts, in sorted disjoint pieces."""

    pieces: tuple[tuple[Cut, Cut], ...]

    def is_subset_of(self, other: "VersionRange") -> bool:
        return self.intersect(other).pieces == self.pieces

    def intersect(self, other: "VersionRange") -> "VersionRange":
        pieces = [(max(a, c), min(b, d)) for a, b in self.pieces for c, d in other.pieces]
        return VersionRange(tuple(sorted((low, high) for low, high in pieces if low < high)))


ALL_VERSIONS = VersionRange(((LOWEST, HIGHEST),))


def parse_range(text: str, dialect: Dialect = "any") -> VersionRange:
    """Parse a manifest's requirement, or a constraint's range ("any"): comparisons joined by commas or spaces,
    `^`, `~`, `1.2.*`, `||`. Raises InvalidRange.
    """
    text = text.strip()
    if len(text) > MAX_RANGE_CHARS:
        raise InvalidRange(f"has {len(text)} characters; expected at most {MAX_RANGE_CHARS}")
    if text in ("", "*", "x"):
        return ALL_VERSIONS
    joined: list[tuple[Cut, Cut]] = []
    for low, high in sorted(piece for part in text.split("||") for piece in parse_alternative(part, dialect).pieces):
        if joined and low <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return VersionRange(tuple(joined))


def parse_alternative(text: str, dialect: Dialect) -> VersionRange:
    """Parse comparisons that must hold together."""
    if hyphen := HYPHEN.match(text):
        return parse_comparison(">=", hyphen[1], dialect).intersect(parse_comparison("<=", hyphen[2], dialect))
    version_range, position = ALL_VERSIONS, 0
    while position < len(text.rstrip()):
        piece = PIECE.match(text, position)
        if piece is None:
            raise InvalidRange(f"{text.strip()[:80]!r} is not a version range; expected one like >=2.1,<3")
        version_range = version_range.intersect(parse_comparison(piece[1] or "", piece[2], dialect))
        position = piece.end()
    return version_range


def parse_comparison(sign: str, text: str, dialect: Dialect) -> VersionRange:
    if wildcard := re.fullmatch(r"v?((?:\d{1,9}\.)*)[*xX](?:\.[*xX])*", text):
        numbers = tuple(map(int, wildcard[1].split(".")[:-1]))
        low, high = release_family(numbers) if numbers else (LOWEST, HIGHEST)
        return outside(low, high) if sign == "!=" else VersionRange(((low, high),))
    version = VERSION.match(text)
    if version is None:
        raise InvalidRange(f"{text[:80]!r} is not a version; expected one like 2.1.0")
    numbers = tuple(map(int, version[1].split(".")))
    key: Key = (strip_zeros(numbers), 0 if version[2] else 1, version[2] or "")
    low, high = (key, 0), (key, 1)
    if sign == "" and dialect == "cargo":
        sign = "^"
    match sign:
        case ">=":
            high = HIGHEST
        case ">":
            low, high = high, HIGHEST
        case "<=":
            low = LOWEST
        case "<":
            low, high = LOWEST, low if version[2] else cut_before_release(numbers)
        case "!=":
            return outside(low, high)
        case "^":  # keeps the first number that is not 0
            high = cut_before_next(numbers, next((n for n, number in enumerate(numbers) if number), len(numbers) - 1))
        case "~=":
            high = cut_before_next(numbers, max(0, len(numbers) - 2))
        case "~" | "~>":
            high = cut_before_next(numbers, min(1, len(numbers) - 1))
        case "" if dialect in ("npm", "any") and len(numbers) < 3:  # a prefix
            low, high = release_family(numbers)
        case _:
            pass
    return VersionRange(((low, high),))


def outside(low: Cut, high: Cut) -> VersionRange:
    return VersionRange(tuple(piece for piece in ((LOWEST, low), (high, HIGHEST)) if piece[0] < piece[1]))


def release_family(numbers: tuple[int, ...]) -> tuple[Cut, Cut]:
    return ((strip_zeros(numbers), 1, ""), 0), cut_before_next(numbers, len(numbers) - 1)


def strip_zeros(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Remove trailing zeros: 2.0 equals 2."""
    end = len(numbers)
    while end and numbers[end - 1] == 0:
        end -= 1
    return numbers[:end]


def cut_before_release(numbers: tuple[int, ...]) -> Cut:
    return ((strip_zeros(numbers), 0, ""), 0)


def cut_before_next(numbers: tuple[int, ...], at: int) -> Cut:
    return cut_before_release((*numbers[:at], numbers[at] + 1))


# --- requirements -----------------------------------------------------------------------------------------

Table: TypeAlias = dict[str, Any]


class Requirement(Struct, frozen=True):
    """A requirement with name and versions as written, and its 1-based line; 0 if not found."""

    name: str
    versions: str
    dialect: Dialect
    line: int = 0


PYTHON_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*(@?[^;#]*)")
GO_LINE = re.compile(r"\s*(?:require\s+)?([^\s/]+\.[^\s]+)\s+(v[^\s/]+)")
GO_REPLACE = re.compile(r"\s*(?:replace\s+)?(\S+)(?:\s+v\S+)?\s*=>\s*(\S+)(?:\s+(v\S+))?")
NPM_TABLES = (
    *("dependencies", "devDependencies", "peerDependencies", "optionalDependencies", "overrides", "resolutions"),
)
EDITABLE_OPTION = re.compile(r"\s*(?:-e|--editable)[\s=]+")


def read_requirements(path: str, content: bytes) -> tuple[Requirement, ...] | None:
    """Return the requirements of a manifest, or None for any different file. Raises UncheckableContent."""
    reader = find_reader(path.rpartition("/")[2].casefold(), path.casefold())
    if reader is None:
        return None
    text = decode_text(content)
    try:
        requirements = list(reader(text))
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise UncheckableContent(f"the manifest cannot be parsed ({type(error).__name__})") from error
    lines = list(enumerate(split_text_lines(text), 1))
    return tuple(
        Requirement(r.name, r.versions, r.dialect, r.line or next((n for n, line in lines if r.name in line), 0))
        for r in requirements
    )


def find_reader(name: str, path: str) -> Callable[[str], Iterable[Requirement]] | None:
    if re.fullmatch(r".*requirements.*\.(?:txt|in)|constraints.*\.txt", name):
        return read_requirements_txt
    if re.search(r"(?:^|/)requirements/[^/]*\.(?:txt|in)\Z", path):
        return read_requirements_txt
    return READERS.get(name)


def same_name(one: str, other: str, dialect: Dialect) -> bool:
    if dialect in ("python", "cargo"):
        return re.sub(r"[-_.]+", "-", one).casefold() == re.sub(r"[-_.]+", "-", other).casefold()
    return one == other


def read_python_requirement(text: str) -> Iterator[Requirement]:
    match = PYTHON_REQUIREMENT.match(text)
    if match is not None:
        yield Requirement(match[1], match[2].strip().strip("()"), "python")


def read_requirements_txt(text: str) -> Iterator[Requirement]:
    for line in split_text_lines(re.sub(r"\\(?:\r\n|\n|\r)", "", text)):
        requirement = re.split(r"(?:^|\s)#|\s--", line)[0].strip()
        egg = re.search(r"#egg=([\w.-]+)", line)
        if EDITABLE_OPTION.match(line) or re.match(r"[a-z+]+://|\.{0,2}/", requirement):
            yield Requirement(egg[1] if egg else requirement, requirement or line, "python")
        elif requirement and not requirement.startswith("-"):
            yield from read_python_requirement(requirement)


def read_pyproject(text: str) -> Iterator[Requirement]:
    document = tomllib.loads(text.removeprefix("\ufeff"))
    project: Table = document.get("project", {})
    lists = [project.get("dependencies", []), document.get("build-system", {}).get("requires", [])]
    lists += [*project.get("optional-dependencies", {}).values(), *document.get("dependency-groups", {}).values()]
    uv: Table = document.get("tool", {}).get("uv", {})
    lists += [uv.get("dev-dependencies", []), uv.get("override-dependencies", [])]
    for requirement in (requirement for requirements in lists for requirement in requirements):
        if isinstance(requirement, str):
            yield from read_python_requirement(requirement)
    poetry: Table = document.get("tool", {}).get("poetry", {})
    groups = [group.get("dependencies", {}) for group in poetry.get("group", {}).values()]
    for table in (poetry.get("dependencies", {}), poetry.get("dev-dependencies", {}), *groups):
        yield from (r for r in read_table(table, "npm") if r.name != "python")


def read_package_json(text: str) -> Iterator[Requirement]:
    document: Table = json.loads(text.removeprefix("\ufeff"))
    for requirement in (r for key in NPM_TABLES for r in read_table(document.get(key, {}), "npm")):
        alias = re.fullmatch(r"npm:(@?[^@]+)@?(.*)", requirement.versions)
        yield Requirement(alias[1], alias[2], "npm") if alias else requirement


def read_cargo_toml(text: str) -> Iterator[Requirement]:
    tables: list[Table] = [tomllib.loads(text.removeprefix("\ufeff"))]
    for table in tables:
        for key, value in table.items():
            if isinstance(value, dict) and key.endswith("dependencies"):
                yield from read_table(cast("Table", value), "cargo")
            elif isinstance(value, dict) and key not in ("features", "metadata"):
                tables.append(cast("Table", value))


def read_table(table: Table, dialect: Dialect) -> Iterator[Requirement]:
    for name, value in table.items():
        if isinstance(value, str):
            yield Requirement(name, value, dialect)
        elif isinstance(value, dict):
            inner = cast("Table", value)
            versions = "git or path" if {"git", "path", "url"} & inner.keys() else str(inner.get("version", "*"))
            yield Requirement(str(inner.get("package", name)), versions, dialect)


def read_go_mod(text: str) -> Iterator[Requirement]:
    for number, line in enumerate(split_text_lines(text), 1):
        code = line.partition("//")[0]
        if replaced := GO_REPLACE.match(code):
            yield Requirement(replaced[1], replaced[3] or replaced[2], "go", number)
            if replaced[3]:
                yield Requirement(replaced[2], replaced[3], "go", number)
        elif required := GO_LINE.match(code):
            yield Requirement(required[1], required[2], "go", number)


READERS: dict[str, Callable[[str], Iterable[Requirement]]] = {
    "pyproject.toml": read_pyproject,
    "package.json": read_package_json,
    "cargo.toml": read_cargo_toml,
    "go.mod": read_go_mod,
}
