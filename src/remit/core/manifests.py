"""What a project says that it needs: the requirements in its manifests."""

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias, cast

from msgspec import Struct

from remit.core.source_text import Uncheckable, decoded, lines_of
from remit.core.version_ranges import Dialect

Table: TypeAlias = dict[str, Any]


class Requirement(Struct, frozen=True):
    """One requirement: name and versions as written, and its line, 1-based; 0 where that is not found."""

    name: str
    versions: str
    dialect: Dialect
    line: int = 0


PYTHON = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*(@?[^;#]*)")
GO_LINE = re.compile(r"\s*(?:require\s+)?([^\s/]+\.[^\s]+)\s+(v[^\s/]+)")
GO_REPLACE = re.compile(r"\s*(?:replace\s+)?(\S+)(?:\s+v\S+)?\s*=>\s*(\S+)(?:\s+(v\S+))?")
NPM_TABLES = (
    *("dependencies", "devDependencies", "peerDependencies", "optionalDependencies", "overrides", "resolutions"),
)
OPTION = re.compile(r"\s*(?:-e|--editable)[\s=]+")


def requirements(path: str, content: bytes) -> tuple[Requirement, ...] | None:
    """What the file asks for; None where it is no manifest. Raises Uncheckable where it cannot be read."""
    reader = reader_of(path.rpartition("/")[2].casefold(), path.casefold())
    if reader is None:
        return None
    text = decoded(content)
    try:
        found = list(reader(text))
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise Uncheckable(f"it is no manifest that can be read ({type(error).__name__})") from error
    lines = lines_of(text)
    return tuple(Requirement(r.name, r.versions, r.dialect, r.line or line_of(r.name, lines)) for r in found)


def reader_of(name: str, path: str) -> Callable[[str], Iterable[Requirement]] | None:
    """Who reads files of that name."""
    if re.fullmatch(r".*requirements.*\.(?:txt|in)|constraints.*\.txt", name):
        return requirements_txt
    if re.search(r"(?:^|/)requirements/[^/]*\.(?:txt|in)\Z", path):
        return requirements_txt
    return READERS.get(name)


def line_of(name: str, lines: list[str]) -> int:
    """The first line that names it."""
    return next((n for n, line in enumerate(lines, 1) if name in line), 0)


def same_name(one: str, other: str, dialect: Dialect) -> bool:
    """Whether two names are of one package. Python and Cargo take `-`, `_` and (Python) `.` for one, and any case."""
    if dialect in ("python", "cargo"):
        return re.sub(r"[-_.]+", "-", one).casefold() == re.sub(r"[-_.]+", "-", other).casefold()
    return one == other


def python_requirement(text: str) -> Iterator[Requirement]:
    """One line as the Python packaging specifications write it."""
    found = PYTHON.match(text)
    if found is not None:
        yield Requirement(found[1], found[2].strip().strip("()"), "python")


def requirements_txt(text: str) -> Iterator[Requirement]:
    """`requirements.txt`: a requirement a line, joined by backslashes."""
    joined = re.sub(r"\\(?:\r\n|\n|\r)", "", text)
    for line in lines_of(joined):
        clean = re.split(r"(?:^|\s)#|\s--", line)[0].strip()
        named = re.search(r"#egg=([\w.-]+)", line)
        if OPTION.match(line) or re.match(r"[a-z+]+://|\.{0,2}/", clean):
            yield Requirement(named[1] if named else clean, clean or line, "python")
        elif clean and not clean.startswith("-"):
            yield from python_requirement(clean)


def pyproject(text: str) -> Iterator[Requirement]:
    """`pyproject.toml`: the project's own, its extras, the groups, the build's, and those of Poetry."""
    document = tomllib.loads(text.removeprefix("\ufeff"))
    project: Table = document.get("project", {})
    lists = [project.get("dependencies", []), document.get("build-system", {}).get("requires", [])]
    lists += [*project.get("optional-dependencies", {}).values(), *document.get("dependency-groups", {}).values()]
    uv: Table = document.get("tool", {}).get("uv", {})
    lists += [uv.get("dev-dependencies", []), uv.get("override-dependencies", [])]
    for found in lists:
        for one in found:
            if isinstance(one, str):
                yield from python_requirement(one)
    poetry: Table = document.get("tool", {}).get("poetry", {})
    groups = [group.get("dependencies", {}) for group in poetry.get("group", {}).values()]
    for table in (poetry.get("dependencies", {}), poetry.get("dev-dependencies", {}), *groups):
        yield from (r for r in from_table(table, "npm") if r.name != "python")


def package_json(text: str) -> Iterator[Requirement]:
    """`package.json`: every table of dependencies, and what overrides them."""
    document: Table = json.loads(text.removeprefix("\ufeff"))
    for key in NPM_TABLES:
        for found in from_table(document.get(key, {}), "npm"):
            alias = re.fullmatch(r"npm:(@?[^@]+)@?(.*)", found.versions)
            yield Requirement(alias[1], alias[2], "npm") if alias else found


def cargo(text: str) -> Iterator[Requirement]:
    """`Cargo.toml`: every table whose name ends in `dependencies`, wherever it stands."""
    yield from cargo_tables(tomllib.loads(text.removeprefix("\ufeff")))


def cargo_tables(table: Table) -> Iterator[Requirement]:
    """The tables of dependencies in a table."""
    for key, value in table.items():
        if not isinstance(value, dict):
            continue
        inner = cast("Table", value)
        if key.endswith("dependencies"):
            yield from from_table(inner, "cargo")
        elif key not in ("features", "metadata"):
            yield from cargo_tables(inner)


def from_table(table: Table, dialect: Dialect) -> Iterator[Requirement]:
    """Names and versions; what is no version (a path, a repository) stands as it is written."""
    for name, value in table.items():
        if isinstance(value, str):
            yield Requirement(name, value, "python" if dialect == "python" else dialect)
        elif isinstance(value, dict):
            inner = cast("Table", value)
            versions = "git or path" if {"git", "path", "url"} & inner.keys() else str(inner.get("version", "*"))
            yield Requirement(str(inner.get("package", name)), versions, dialect)


def go_mod(text: str) -> Iterator[Requirement]:
    """`go.mod`: what it requires, and what it puts in a module's place."""
    for number, line in enumerate(lines_of(text), 1):
        clean = line.partition("//")[0]
        if replaced := GO_REPLACE.match(clean):
            yield Requirement(replaced[1], replaced[3] or replaced[2], "go", number)
            if replaced[3]:
                yield Requirement(replaced[2], replaced[3], "go", number)
        elif required := GO_LINE.match(clean):
            yield Requirement(required[1], required[2], "go", number)


READERS: dict[str, Callable[[str], Iterable[Requirement]]] = {
    "pyproject.toml": pyproject,
    "package.json": package_json,
    "cargo.toml": cargo,
    "go.mod": go_mod,
}
