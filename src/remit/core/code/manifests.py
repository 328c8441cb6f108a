"""Requirements declared in a project's manifests."""

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias, cast

from msgspec import Struct

from remit.core.code.source_text import UncheckableContent, decode_text, split_text_lines
from remit.core.code.version_ranges import Dialect

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
    lines = split_text_lines(text)
    return tuple(Requirement(r.name, r.versions, r.dialect, r.line or find_line(r.name, lines)) for r in requirements)


def find_reader(name: str, path: str) -> Callable[[str], Iterable[Requirement]] | None:
    if re.fullmatch(r".*requirements.*\.(?:txt|in)|constraints.*\.txt", name):
        return read_requirements_txt
    if re.search(r"(?:^|/)requirements/[^/]*\.(?:txt|in)\Z", path):
        return read_requirements_txt
    return READERS.get(name)


def find_line(name: str, lines: list[str]) -> int:
    return next((n for n, line in enumerate(lines, 1) if name in line), 0)


def same_name(one: str, other: str, dialect: Dialect) -> bool:
    if dialect in ("python", "cargo"):
        return re.sub(r"[-_.]+", "-", one).casefold() == re.sub(r"[-_.]+", "-", other).casefold()
    return one == other


def read_python_requirement(text: str) -> Iterator[Requirement]:
    match = PYTHON_REQUIREMENT.match(text)
    if match is not None:
        yield Requirement(match[1], match[2].strip().strip("()"), "python")


def read_requirements_txt(text: str) -> Iterator[Requirement]:
    """Read `requirements.txt`: a requirement per line, with backslash continuation."""
    joined = re.sub(r"\\(?:\r\n|\n|\r)", "", text)
    for line in split_text_lines(joined):
        requirement = re.split(r"(?:^|\s)#|\s--", line)[0].strip()
        egg = re.search(r"#egg=([\w.-]+)", line)
        if EDITABLE_OPTION.match(line) or re.match(r"[a-z+]+://|\.{0,2}/", requirement):
            yield Requirement(egg[1] if egg else requirement, requirement or line, "python")
        elif requirement and not requirement.startswith("-"):
            yield from read_python_requirement(requirement)


def read_pyproject(text: str) -> Iterator[Requirement]:
    """Read `pyproject.toml`: project, extras, dependency groups, build system, and Poetry."""
    document = tomllib.loads(text.removeprefix("\ufeff"))
    project: Table = document.get("project", {})
    lists = [project.get("dependencies", []), document.get("build-system", {}).get("requires", [])]
    lists += [*project.get("optional-dependencies", {}).values(), *document.get("dependency-groups", {}).values()]
    uv: Table = document.get("tool", {}).get("uv", {})
    lists += [uv.get("dev-dependencies", []), uv.get("override-dependencies", [])]
    for requirements in lists:
        for requirement in requirements:
            if isinstance(requirement, str):
                yield from read_python_requirement(requirement)
    poetry: Table = document.get("tool", {}).get("poetry", {})
    groups = [group.get("dependencies", {}) for group in poetry.get("group", {}).values()]
    for table in (poetry.get("dependencies", {}), poetry.get("dev-dependencies", {}), *groups):
        yield from (r for r in read_table(table, "npm") if r.name != "python")


def read_package_json(text: str) -> Iterator[Requirement]:
    """Read `package.json`: each table of dependencies and overrides."""
    document: Table = json.loads(text.removeprefix("\ufeff"))
    for key in NPM_TABLES:
        for requirement in read_table(document.get(key, {}), "npm"):
            alias = re.fullmatch(r"npm:(@?[^@]+)@?(.*)", requirement.versions)
            yield Requirement(alias[1], alias[2], "npm") if alias else requirement


def read_cargo_toml(text: str) -> Iterator[Requirement]:
    """Read `Cargo.toml`: each table with a name ending in `dependencies`, at any depth."""
    yield from read_cargo_tables(tomllib.loads(text.removeprefix("\ufeff")))


def read_cargo_tables(table: Table) -> Iterator[Requirement]:
    for key, value in table.items():
        if not isinstance(value, dict):
            continue
        inner = cast("Table", value)
        if key.endswith("dependencies"):
            yield from read_table(inner, "cargo")
        elif key not in ("features", "metadata"):
            yield from read_cargo_tables(inner)


def read_table(table: Table, dialect: Dialect) -> Iterator[Requirement]:
    """Read names and versions; a path or repository in place of a version stays as written."""
    for name, value in table.items():
        if isinstance(value, str):
            yield Requirement(name, value, "python" if dialect == "python" else dialect)
        elif isinstance(value, dict):
            inner = cast("Table", value)
            versions = "git or path" if {"git", "path", "url"} & inner.keys() else str(inner.get("version", "*"))
            yield Requirement(str(inner.get("package", name)), versions, dialect)


def read_go_mod(text: str) -> Iterator[Requirement]:
    """Read `go.mod`: requirements and replacements."""
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
