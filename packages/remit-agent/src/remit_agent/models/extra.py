"""The extra `agent`: packages only needed by Remit's own agent, imported at the first use."""

from collections.abc import Generator
from contextlib import contextmanager

from remit.core.extras import describe_installation


class ExtraMissing(Exception):
    """A package of an extra is not installed. The message ends in the command that installs it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed\nhint: {describe_installation(extra)}")
        self.package = package
        self.extra = extra


@contextmanager
def name_missing_extra(extra: str = "agent") -> Generator[None]:
    """Import packages of an extra within the context. Raises ExtraMissing for a package that is not installed."""
    try:
        yield
    except ImportError as error:
        # The library of models wraps the error of a missing SDK in an ImportError with words of its own.
        missing = error if isinstance(error, ModuleNotFoundError) else error.__cause__
        name = (getattr(missing, "name", None) or "").partition(".")[0]
        if not name or name.startswith("remit"):
            raise
        raise ExtraMissing(name, extra) from error
