"""Templates of intents: a team's own in `.orchestration/templates/`, and a few that Remit brings."""

import re
from collections.abc import Mapping

from remit.core.intent import Constraint, Criterion, Intent
from remit.gate.governing import source_folder
from remit.gate.intent_refusals import IntentError
from remit.workspace.intents_file import parse_template
from remit.workspace.place import Workspace
from remit.workspace.whole_files import read_regular

FOLDER = "templates"
SUFFIX = ".yaml"
MAX_BYTES = 64 * 1024
NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)


def built_in(description: str, constraints: tuple[str, ...], criteria: tuple[str, ...], *scope: str) -> Intent:
    """Return a template that Remit brings."""
    return Intent(
        id="",
        owned_scope=scope,
        description=description,
        constraints=tuple(map(Constraint, constraints)),
        acceptance_criteria=tuple(map(Criterion, criteria)),
    )


BUILT_IN: Mapping[str, Intent] = {
    "bugfix": built_in(
        "Mend a defect at its cause.",
        ("Change no more than the defect needs",),
        ("A test fails before the change and passes after it", "All other tests pass"),
    ),
    "feature": built_in(
        "Add something that users can do.",
        ("What exists goes on to work as before",),
        ("Tests cover what is new", "The documentation says how to use it"),
    ),
    "refactor": built_in(
        "Change the form of code, and not what it does.",
        ("What the code does stays as it is", "No test changes what it claims"),
        ("All tests pass as before",),
    ),
    "docs": built_in(
        "Write or mend documentation.",
        ("No code changes",),
        ("Each link leads somewhere, and each example works",),
        "docs/**",
        "*.md",
    ),
}


def template_names(workspace: Workspace) -> list[str]:
    """Return the names of all templates, the team's own first. Raises OSError."""
    folder = source_folder(workspace) / FOLDER
    own = [path.stem for path in folder.iterdir() if path.suffix == SUFFIX] if folder.is_dir() else []
    own = sorted(name for name in own if NAME.fullmatch(name))
    return [*own, *(name for name in BUILT_IN if name not in own)]


def load_template(workspace: Workspace, name: str) -> Intent:
    """Return the template of that name: the team's own, else one that Remit brings. Raises IntentError."""
    if NAME.fullmatch(name):
        path = source_folder(workspace) / FOLDER / f"{name}{SUFFIX}"
        try:
            intent, findings = parse_template(read_regular(path, MAX_BYTES))
        except FileNotFoundError:
            if name in BUILT_IN:
                return BUILT_IN[name]
        except OSError as error:
            raise IntentError(f"the template {name!r} cannot be read: {error.strerror or error}") from error
        else:
            if intent is None or findings:
                why = "; ".join(f"line {f.line}: {f.message}" for f in findings)
                raise IntentError(f"the template {name!r} cannot be used: {why}")
            return intent
    known = ", ".join(template_names(workspace))
    raise IntentError(f"there is no template {name!r} (known: {known})")
