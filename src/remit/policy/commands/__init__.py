"""What a shell command does, as far as its text proves it."""

from remit.policy.commands.analysis import CommandAnalysis, analyse

__all__ = ["CommandAnalysis", "analyse"]
