"""What a shell command does, as far as its text proves it."""

from remit.policy.commands.analysis import CommandAnalysis, analyse
from remit.policy.commands.programs.effects import Write

__all__ = ["CommandAnalysis", "Write", "analyse"]
