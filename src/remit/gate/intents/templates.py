"""Templates of intents: the team's own in `.orchestration/templates/`, and a few built-in ones."""

import re
from collections.abc import Mapping

from remit.core.intent import Constraint, Criterion, Intent
from remit.gate.governing.rules import source_folder
from remit.gate.intents.refusals import IntentError
from remit.workspace.intents_file.parse import parse_template
from remit.workspace.place.workspace import Workspace
from remit.workspace.safe_files import read_regular_file

TEMPLATES_FOLDER = "templates"
TEMPLATE_SUFFIX = ".yaml"
MAX_TEMPLATE_BYTES = 64 * 1024
TEMPLATE_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)


def make_template(description: str, constraints: tuple[str, ...], criteria: tuple[str, ...], *scope: str) -> Intent:
    return Intent(
        id="",
        owned_scope=scope,
        description=description,
        constraints=tuple(map(Constraint, constraints)),
        acceptance_criteria=tuple(map(Criterion, criteria)),
    )


BUILT_IN_TEMPLATES: Mapping[str, Intent] = {
    "bugfix": make_template(
        "Mend a defect at its cause.",
        ("Change no more than the defect needs",),
        ("A test fails before the change and passes after it", "All other tests pass"),
    ),
    "feature": make_template(
        "Add something that users can do.",
        ("What exists goes on to work as before",),
        ("Tests cover what is new", "The documentation says how to use it"),
    ),
    "refactor": make_template(
        "Change the form of code, and not what it does.",
        ("What the code does stays as it is", "No test changes what it claims"),
        ("All tests pass as before",),
    ),
    "docs": make_template(
        "Write or mend documentation.",
        ("No code changes",),
        ("Each link leads somewhere, and each example works",),
        "docs/**",
        "*.md",
    ),
}


def load_template(workspace: Workspace, name: str) -> Intent:
    """Return the template with this name; the team's own precede built-in ones. Raises IntentError."""
    if TEMPLATE_NAME.fullmatch(name):
        path = source_folder(workspace) / TEMPLATES_FOLDER / f"{name}{TEMPLATE_SUFFIX}"
        try:
            intent, findings = parse_template(read_regular_file(path, MAX_TEMPLATE_BYTES))
        except FileNotFoundError:
            if name in BUILT_IN_TEMPLATES:
                return BUILT_IN_TEMPLATES[name]
        except OSError as error:
            raise IntentError(f"the template {name!r} cannot be read: {error.strerror or error}") from error
        else:
            if intent is None or findings:
                why = "; ".join(f"line {f.line}: {f.message}" for f in findings)
                raise IntentError(f"the template {name!r} cannot be used: {why}")
            return intent
    folder = source_folder(workspace) / TEMPLATES_FOLDER
    own = [path.stem for path in folder.iterdir() if path.suffix == TEMPLATE_SUFFIX] if folder.is_dir() else []
    known = dict.fromkeys((*sorted(filter(TEMPLATE_NAME.fullmatch, own)), *BUILT_IN_TEMPLATES))
    raise IntentError(f"there is no template {name!r} (known: {', '.join(known)})")
