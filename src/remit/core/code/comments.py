"""Meaning outside the tree: comments that tools obey, first bytes of a file, numbers of lines.

Tools cannot be listed completely. A comment mistaken for an instruction only costs an unrecognised refactoring, so the
patterns are broad.
"""

import re

TOOL_WORDS = (
    "biome|c8|coverity|cspell|deno|eslint|exported|flow|flowlint|globals?|istanbul|jshint|jslint|jscs|keep|lint|oxlint|prettier"
    "|stylelint|tslint|v8|webpack|checkstyle|clang-\\w+|cppcheck|codeql|gosec|lgtm|nosonar|noinspection|semgrep|mypy"
    "|pragma|pylint|pyright|ruff|yapf|autopep8|bandit|rubocop|reek|shellcheck|phan|phpcs|phpstan|psalm|yamllint|checkov"
    "|hadolint|renovate|region|endregion|resharper|iwyu|pyre-\\w+|graphql|sql|html|css"
)
"""First words of comments read by tools."""
DOC_TAGS = "param|returns?|throws|exception|see|since|author|version|link|code|todo|brief|note|description|file|details"
"""Words after `@` that only document, unless a type in braces follows."""
PLUGIN_HEADERS = (
    "plugin\\ (?:name|uri)|theme\\ (?:name|uri)|template(?:\\ name|\\ post\\ type)?|version|text\\ domain|domain\\ path"
    "|network|requires\\ (?:at\\ least|php|plugins)|update\\ uri|author(?:\\ uri)?|description|title|slug|categories"
    "|inserter"
)
"""Declarations in a comment at the start of a plugin, theme or pattern."""
INSTRUCTION = re.compile(
    rf"""(?imx)
    ^(?:\#+|//+|/\*|--) [\s*!]* (?: (?:{TOOL_WORDS})\b | [a-z][\w.-]*[:=] | [$=:] )   # a tool; a setting; a sign
    | ^\#(?-i:[A-Z]{{2,}}\s|[a-z]+-[a-z])                                         # `#SBATCH …`, `#cloud-config`
    | ^(?:\#|//|/\*)[@~] | ^//-V\d | ^/\*! | _EXCL_                               # contracts; what a bundle keeps
    | ^(?://|\#)[ ]*(?:want|error|warning)[ ]+["`]  | ^//~                        # what a checker is to find
    | ^[ \t*/\#@]*(?:{PLUGIN_HEADERS})[ ]*: | ^[ \t*]*\#\#[ ]OPTIONS                       # what WordPress reads
    | (?<![\w@]) @ (?: (?!(?:{DOC_TAGS})\b) [a-z] | \w+\s*\{{ )                       # an annotation, or a type
    | \b(?:no(?:qa|lint|sec|check|cover)\w* | no[ ]cover | ignore | disable | enable | expect-error | skip)
    | \bfall(?:s|ing|en)?[ _-]?(?:through|thru)\b | \bdo[ ]not[ ]edit\b | auto-?generated | \$schema | sourcemappingurl
    | \\u | \?\?/ | \{{\{{ | \{{% | <% | -\*-
    """
)
COMMENT_READERS = re.compile(
    rb"""(?mx)
    ^\#[ ]///                                    # Python's metadata in a script
    | ^[ \t]*import\s+"C" | ^[ \t]*"C"[ \t\r]*$  # C before an import of Go
    | (?i://[ ]*(?:unordered[ ]+)?output:)       # what an example of Go is to print
    | \#\#\#[ ]BEGIN[ ]INIT[ ]INFO               # when a service of an old Linux starts
    | ^\#[ ]Databricks[ ]notebook[ ]source       # cells, some of them in comments
    | -linecomment\b                            # names of Go's constants
    | \b(?:getsource(?:lines)?|getcomments)\b | \b(?:open|read|readlines?|file|highlight_file)\((?:__FILE__|__file__)
    | \b(?:grep|e?grep|sed|g?awk|head|tail|cat|cut|perl)\b[^\n]{0,200}\$(?:0\b|\{?(?:0|BASH_SOURCE))
    """
)
"""Code that reads comments: each comment of such a file counts."""
INJECTION_CALLS = re.compile(
    rb"""(?x) \bangular\.module\b | \b(?:autoInject|awilix)\b | \$inject\b
    | \.(?:controller|directive|factory|service|provider)\(\s*['"][\w.]+['"]\s*,\s*[A-Za-z_]
    """
)
"""Scripts that pass arguments by parameter name."""
TEMPLATE = re.compile(rb"\{\{|\{%|<%")
HEAD = re.compile(rb"(?:\xef\xbb\xbf)?(?:#!.*|\s*<\?)?")
TAIL = re.compile(rb"\?>\s*\Z")
ENCODING_COMMENT = re.compile(rb"[ \t\f]*#.*coding[:=]")
LINE_NUMBER_USES = re.compile(
    rb"\b(?:__LINE__|line!|column!|f_lineno|CallerLineNumber|caller_locations|lineno\b|runtime\.Caller|getLineNumber|source_location|debug_backtrace"
    rb"|Location::caller)"
)
KEPT_BLANK_LINES = re.compile(rb"[|>][0-9]?\+")
LONE_MODIFIER = re.compile(rb"\b(?:static|get|set|accessor)[ \t]*(?:;|\r?\n)")
"""Modifiers of members in scripts; alone on a line they are members."""
MACRO_DEFINITION = re.compile(r"^[ \t]*#[ \t]*define\b(?:.*\\\r?\n)*.*", re.MULTILINE)


def is_instruction(comment: str) -> bool:
    return INSTRUCTION.search(comment) is not None


def find_positional_marks(content: bytes) -> tuple[object, ...]:
    """Return the parts whose position has meaning: first bytes, encoding, and numbered lines.

    Empty lines have meaning at the end of a YAML text, and between C and a Go import.
    """
    head, tail = HEAD.match(content), TAIL.search(content)
    coded = [n for n, line in enumerate(content.split(b"\n", 2)[:2]) if ENCODING_COMMENT.match(line)]
    numbers = [content.count(b"\n", 0, match.start()) for match in LINE_NUMBER_USES.finditer(content)]
    counts_blank = KEPT_BLANK_LINES.search(content) or COMMENT_READERS.search(content)
    blank = [not line.strip() for line in content.splitlines()] if counts_blank else []
    return head and head[0], tail and tail[0], coded, numbers, blank
