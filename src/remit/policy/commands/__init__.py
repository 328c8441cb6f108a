"""The effects of shell commands, as proved by their text."""

from remit.policy.commands.analysis import CommandAnalysis, analyse
from remit.policy.commands.programs.row import Write

__all__ = ["CommandAnalysis", "Write", "analyse"]
