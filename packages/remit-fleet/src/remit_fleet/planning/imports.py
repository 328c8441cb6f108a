"""Imports between the files of a repository: what a file imports, resolved to files. Pure."""

import posixpath
import re
from collections.abc import Iterable

from remit.core.code.imports import find_imports
from remit.core.code.languages import find_language
from remit.core.code.source_text import UncheckableContent

MAX_TARGETS = 20
"""Files that one import may stand for: a Go package is a folder."""
SOURCE_ROOTS = ("", "src/", "lib/", "python/", "include/", "src/main/java/", "src/test/java/")
SCRIPT_SUFFIXES = (
    "",
    ".ts",
    ".tsx",
    ".js",
    ".jsx",
    ".mjs",
    ".cjs",
    ".mts",
    ".vue",
    "/index.ts",
    "/index.js",
    "/index.tsx",
)
_TAIL = r"(?:[^\n({]*[({][^)}]*[)}][^\n]*|[^\n]*)"
"""The rest of a statement: to the end of a bracket that opens on the line, else to the end of the line."""
PYTHON_IMPORT = re.compile(rf"^[ \t]*(?:import|from)\b{_TAIL}", re.MULTILINE)
OTHER_IMPORT = re.compile(
    rf"^[ \t]*(?:import|export|use|pub|extern|#[ \t]*include|(?:const|let|var)\b[^\n]*\brequire)\b{_TAIL}", re.MULTILINE
)


def list_imported_modules(path: str, text: str) -> tuple[str, ...]:
    """Return the modules named by a file's import statements. Only import statements are parsed: parsing whole files
    takes ten times as long.
    """
    language = find_language(path)
    if language is None:
        return ()
    pattern = PYTHON_IMPORT if language.name == "python" else OTHER_IMPORT
    try:
        found = find_imports(language.name, "\n".join(pattern.findall(text)))[0]
    except (UncheckableContent, KeyError):
        return ()
    return tuple(dict.fromkeys(one.module for one in found))


class ImportResolver:
    """The files of a repository, for looking up modules."""

    def __init__(self, files: Iterable[str]) -> None:
        self.files = frozenset(files)
        self.by_tail: dict[str, list[str]] = {}
        self.go_folders: dict[str, list[str]] = {}
        for file in sorted(self.files):
            folder, _, name = file.rpartition("/")
            if name.endswith((".java", ".kt")):
                self.by_tail.setdefault(name.rpartition(".")[0], []).append(file)
            elif name.endswith(".go"):
                self.go_folders.setdefault(folder, []).append(file)

    def resolve(self, path: str, modules: Iterable[str]) -> tuple[str, ...]:
        """Return the repository files imported by `path` under these module names, without `path` itself."""
        suffix = path.rpartition(".")[2]
        found: dict[str, None] = {}
        for module in modules:
            if suffix in ("py", "pyi", "pyx"):
                files: Iterable[str] = self._resolve_python(path, module)
            elif suffix == "go":
                files = self._resolve_go(module)
            elif suffix in ("java", "kt"):
                files = self._resolve_java(module)
            elif suffix == "rs":
                files = self._resolve_rust(path, module)
            else:
                files = self._resolve_relative(path, module)
            found |= dict.fromkeys(files)
        found.pop(path, None)
        return tuple(found)

    def _find_first(self, stems: Iterable[str], suffixes: tuple[str, ...]) -> list[str]:
        names = (posixpath.normpath(stem + suffix) for stem in stems for suffix in suffixes if stem + suffix)
        first = next((name for name in names if name in self.files), None)
        return [] if first is None else [first]

    def _resolve_python(self, path: str, module: str) -> list[str]:
        name = module.lstrip(".")
        dots, above = len(module) - len(name), _list_folders(path)
        roots = above[dots - 1 : dots] if dots else [folder + root for folder in above for root in SOURCE_ROOTS]
        stems = [root + name.replace(".", "/") for root in roots if name]
        return self._find_first(stems, (".py", ".pyi", "/__init__.py"))

    def _resolve_relative(self, path: str, module: str) -> list[str]:
        folder = path.rpartition("/")[0]
        roots = [f"{folder}/" if folder else ""]
        if not module.startswith("."):  # a header of C; packages of scripts are found nowhere
            roots += [above + root for above in _list_folders(path) for root in SOURCE_ROOTS]
        return self._find_first([root + module for root in roots], SCRIPT_SUFFIXES)

    def _resolve_go(self, module: str) -> list[str]:
        parts = module.split("/")
        folders = ("/".join(parts[start:]) for start in range(1, len(parts)))
        first = next((folder for folder in folders if folder in self.go_folders), "")
        return self.go_folders[first][:MAX_TARGETS] if first else []

    def _resolve_java(self, module: str) -> list[str]:
        tail = module.replace(".", "/")
        named = self.by_tail.get(module.rpartition(".")[2], [])
        return [file for file in named if f"/{file.rpartition('.')[0]}".endswith(f"/{tail}")][:MAX_TARGETS]

    def _resolve_rust(self, path: str, module: str) -> list[str]:
        kind, *parts = module.split("::")
        above = _list_folders(path)
        roots = above[:1] if kind == "self" else above[1:2] if kind == "super" else above if kind == "crate" else []
        for length in (len(parts), len(parts) - 1):
            stems = [root + "/".join(parts[:length]) for root in roots] if length > 0 else []
            found = self._find_first(stems, (".rs", "/mod.rs"))
            if found:
                return found
        return []


def _list_folders(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["".join(f"{part}/" for part in parts[:depth]) for depth in range(len(parts), -1, -1)]
