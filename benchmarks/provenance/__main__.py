"""ProvBench: `python -m benchmarks.provenance`, from the repository's root. See README.md beside this file."""

import sys

from .cli import main

sys.exit(main(sys.argv[1:]))
