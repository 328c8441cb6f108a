"""Parts of Remit that are packages of their own: what each adds."""

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import NamedTuple


class Extension(NamedTuple):
    """What a package adds. Modules are dotted names: each is imported when it is needed."""

    commands: Mapping[str, Mapping[str, tuple[str, str]]]
    """By section of `remit --help`: the commands, each with `module:attribute` and its help line."""
    console: str
    """The module with the console's `PAGES`, `WRITES` and `NAVIGATION`; templates lie beside it in `templates/`."""
    errors: str = ""
    """The module with `ERRORS`, exceptions of the package that end a command, and `describe_failure`."""


class Part(NamedTuple):
    """A package that may be missing: the extra that brings it, the code of a command's answer where it is missing, and
    the commands that it adds.
    """

    package: str
    extra: str
    code: str
    commands: tuple[str, ...]


PARTS = (
    Part("remit_fleet", "cluster", "EXTRA_MISSING", ("plan", "task", "worker", "fleet")),
    Part("remit_agent", "agent", "NO_EXTRA", ("run", "acp-agent")),
)


def find_extensions() -> list[Extension]:
    """Return the extensions that are installed. Imports one module of each."""
    return [load_extension(part) for part in PARTS if is_installed(part)]


def is_installed(part: Part) -> bool:
    return f"{part.package}.extension" in sys.modules or find_spec(part.package) is not None


def load_extension(part: Part) -> Extension:
    """Return what a part adds. Raises ImportError if the part is not installed."""
    return import_module(f"{part.package}.extension").EXTENSION


def find_part(command: str) -> Part | None:
    return next((part for part in PARTS if command in part.commands), None)


def loaded_errors() -> list[ModuleType]:
    """Return the modules of errors of the parts at work in this process: a room that is not loaded raises nothing."""
    modules = [f"{part.package}.extension" for part in PARTS]
    names = [sys.modules[name].EXTENSION.errors for name in modules if name in sys.modules]
    return [import_module(name) for name in names if name.rpartition(".")[0] in sys.modules]
