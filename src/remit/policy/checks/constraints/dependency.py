"""`dependency`: the versions of a package that manifests may ask for (`version`), or none (`forbid`).

Transitive dependencies and lock files are not checked.
"""

from collections.abc import Iterable

from remit.core.code.manifests import Requirement, read_requirements, same_name
from remit.core.code.version_ranges import InvalidRange, parse_constraint_range, parse_range
from remit.core.display_text import sanitise_line
from remit.core.intent import Constraint
from remit.policy.checks.constraints.breach import Breach, ProposedChange, find_file_breaches


def find_breaches(constraint: Constraint, change: ProposedChange) -> Iterable[Breach]:
    """Yield the manifests that ask for other versions."""
    return find_file_breaches(constraint, change, measure_manifest)


def measure_manifest(constraint: Constraint, path: str, content: bytes) -> Breach | None:
    found = [r for r in read_requirements(path, content) or () if violates_constraint(constraint, r)]
    if not found:
        return None
    bound = "no such dependency" if constraint.options.get("forbid") else str(constraint.options.get("version"))
    measured = ", ".join(sanitise_line(f"{r.name} {r.versions or 'in any version'}", 100) for r in found[:5])
    lines, items = tuple(r.line for r in found if r.line), tuple(f"{r.name} {r.versions}" for r in found)
    return Breach(measured, bound, path, lines, len(found), items)


def violates_constraint(constraint: Constraint, requirement: Requirement) -> bool:
    """Return True if the requirement may take an unwanted version of the package; an unreadable range may."""
    if not same_name(requirement.name, str(constraint.options["name"]), requirement.dialect):
        return False
    if constraint.options.get("forbid"):
        return True
    try:
        return not parse_range(requirement.versions, requirement.dialect).is_subset_of(
            parse_constraint_range(str(constraint.options["version"]))
        )
    except InvalidRange:
        return True
