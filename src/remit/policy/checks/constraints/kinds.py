"""The kinds of constraints and who judges them."""

from collections.abc import Mapping

from remit.policy.checks.constraints import (
    dependency,
    forbid_import,
    forbid_path,
    forbid_pattern,
    max_files,
    max_lines,
    require_pattern,
    require_test_change,
)
from remit.policy.checks.constraints.breach import Kind

KINDS: Mapping[str, Kind] = {
    "max_lines": max_lines.broken,
    "forbid_pattern": forbid_pattern.broken,
    "require_pattern": require_pattern.broken,
    "forbid_import": forbid_import.broken,
    "forbid_path": forbid_path.broken,
    "dependency": dependency.broken,
    "require_test_change": require_test_change.broken,
    "max_files": max_files.broken,
}
"""One file each. What options a kind takes stands in `core.constraint_shapes`."""
