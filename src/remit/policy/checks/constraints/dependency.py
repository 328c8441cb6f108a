"""`dependency`: what manifests may ask for of a package: versions within `version`, or nothing of it (`forbid`).

Only manifests are looked at: what a package brings with it, and what a lock file holds, is not.
"""

from collections.abc import Iterable

from remit.core.intent import Constraint
from remit.core.manifests import Requirement, requirements, same_name
from remit.core.text import shown
from remit.core.version_ranges import BadRange, range_of, wanted_range
from remit.policy.checks.constraints.breach import Breach, Situation, each_file


def broken(constraint: Constraint, situation: Situation) -> Iterable[Breach]:
    """The manifests that ask for something else."""
    return each_file(constraint, situation, measure)


def measure(constraint: Constraint, path: str, content: bytes) -> Breach | None:
    """One content."""
    found = [r for r in requirements(path, content) or () if is_wrong(constraint, r)]
    if not found:
        return None
    bound = "no such dependency" if constraint.options.get("forbid") else str(constraint.options.get("version"))
    said = ", ".join(shown(f"{r.name} {r.versions or 'in any version'}", 100) for r in found[:5])
    lines, items = tuple(r.line for r in found if r.line), tuple(f"{r.name} {r.versions}" for r in found)
    return Breach(said, bound, path, lines, len(found), items)


def is_wrong(constraint: Constraint, found: Requirement) -> bool:
    """Whether a requirement is of that package, and may take a version that is not wanted. What is no range may."""
    if not same_name(found.name, str(constraint.options["name"]), found.dialect):
        return False
    if constraint.options.get("forbid"):
        return True
    try:
        return not range_of(found.versions, found.dialect).within(wanted_range(str(constraint.options["version"])))
    except BadRange:
        return True
