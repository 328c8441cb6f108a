"""The error of a command, and exit codes (contracts §8)."""

FINDINGS, USAGE, REFUSED, UNAVAILABLE, INTEGRITY = 1, 2, 3, 4, 5
INTERRUPT = 130
"""Exit codes: contracts §8."""


class Failure(Exception):
    """A command's error. `fix` is the next step."""

    def __init__(self, code: str, message: str, *, fix: str = "", target: str = "", exit_code: int = USAGE) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.fix = fix
        self.target = target
        self.exit_code = exit_code

    @classmethod
    def from_error(cls, error: Exception, code: str, *, target: str = "", exit_code: int = USAGE) -> "Failure":
        """Return the failure for an error whose message may end in a hint on its own line."""
        message, _, hint = str(error).partition("\nhint: ")
        return cls(code, message, fix=hint, target=target, exit_code=exit_code)
