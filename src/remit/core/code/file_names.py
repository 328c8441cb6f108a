"""The names of files whose language is in the table of `rows`, for who has no time to load it."""

FILE_NAMES = frozenset({"Gemfile", "Rakefile"})
SUFFIXES = frozenset(
    {
        ".bash",
        ".c",
        ".cc",
        ".cjs",
        ".cpp",
        ".cs",
        ".cts",
        ".cxx",
        ".gemspec",
        ".go",
        ".h",
        ".hh",
        ".hpp",
        ".hxx",
        ".ipp",
        ".java",
        ".js",
        ".json",
        ".jsx",
        ".markdown",
        ".md",
        ".mjs",
        ".mts",
        ".php",
        ".py",
        ".pyi",
        ".pyw",
        ".rake",
        ".rb",
        ".rs",
        ".sh",
        ".toml",
        ".ts",
        ".tsx",
        ".yaml",
        ".yml",
    }
)


def has_known_language(path: str) -> bool:
    """Whether the name of a file tells a language of the table."""
    name = path.rpartition("/")[2]
    dot = name.rfind(".")
    return name in FILE_NAMES or (dot > 0 and name[dot:].lower() in SUFFIXES)
