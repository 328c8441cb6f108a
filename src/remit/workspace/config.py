"""Reading `remit.toml`."""

from pathlib import Path

import msgspec

from remit.core.config import Config

LIMIT = 256 * 1024


class ConfigError(ValueError):
    """`remit.toml` is there and cannot be used."""


def read_config(path: Path) -> Config | None:
    """The configuration; None where there is no file. Raises ConfigError naming what is wrong."""
    try:
        if not path.is_file():
            if path.exists():
                raise ConfigError(f"{path.name} is not a file")
            return None
        if path.stat().st_size > LIMIT:
            raise ConfigError(f"it is larger than {LIMIT // 1024} KiB")
        return msgspec.toml.decode(path.read_bytes(), type=Config)
    except OSError as error:
        raise ConfigError(f"it cannot be read ({error.strerror})") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ConfigError(f"{error}") from error
