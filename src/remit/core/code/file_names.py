"""Names of source files, for callers that cannot afford to load `languages`."""

FILE_NAMES = frozenset({"Gemfile", "Rakefile"})
SUFFIXES = frozenset(
    """
    .bash .c .cc .cjs .cpp .cs .cts .cxx .gemspec .go .h .hh .hpp .hxx .ipp .java .js .json .jsx .markdown .md .mjs .mts
    .php .py .pyi .pyw .rake .rb .rs .sh .toml .ts .tsx .yaml .yml
    """.split()  # noqa: SIM905  a list of quoted suffixes takes forty lines
)


def has_known_language(path: str) -> bool:
    name = path.rpartition("/")[2]
    dot = name.rfind(".")
    return name in FILE_NAMES or (dot > 0 and name[dot:].lower() in SUFFIXES)
