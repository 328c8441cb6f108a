"""Files that some program loads or runs because of their name alone, without being asked: no build output is called so.

A file of such a name is judged like any other, though git ignores it. Below a folder that git ignores it is not looked
for: installed packages bring files of these names, and nothing loads them there.
"""

import re

NAMES = re.compile(
    # the shell, editors, debuggers and pagers
    r"\.envrc|\.exrc|\.n?vimrc|\.nvim\.lua|\.vim|\.dir-locals(?:-2)?\.el|\.editorconfig|\.gdbinit|\.lldbinit|\.lesskey"
    r"|\.autoenv(?:\.zsh)?|\.?mise(?:\..+)?\.toml|\.?mise|\.rtx\.toml|\.tool-versions|\.bashrc|\.zshrc|\.profile"
    r"|\.vscode|\.idea|\.fleet|\.zed|\.devcontainer|\.devcontainer\.json|.+\.code-workspace"
    # git, and services that read a repository
    r"|\.git|\.gitattributes|\.gitmodules|\.githooks|\.husky|\.github|\.gitlab-ci\.yml|\.pre-commit-config\.yaml|lefthook(?:-local)?\.ya?ml"
    # builds and package managers
    r"|gnumakefile|makefile|.+\.mk|justfile|\.justfile|taskfile\.ya?ml|\.bazelrc|\.cargo|build\.rs|cmakeuserpresets\.json"
    r"|\.npmrc|\.yarnrc(?:\.yml)?|\.pnpmfile\.c?js|\.pnp\..*|\.mocharc\..*|\.babelrc.*|\.eslintrc.*|\.prettierrc.*|.+\.config\.[cm]?[jt]s"
    # Python
    r"|conftest\.py|sitecustomize\.py|usercustomize\.py|setup\.(?:py|cfg)|tox\.ini|pytest\.ini|\.pythonrc(?:\.py)?|.+\.pth"
    r"|.+\.pyd"
    # what others load in place of a module of that name
    r"|.+\.(?:so(?:\.[\d.]+)?|dylib|dll)"
    r"|docker-compose\.override\.ya?ml|compose\.override\.ya?ml",
    re.IGNORECASE | re.DOTALL,
)


def is_loaded_by_name(name: str) -> bool:
    """Whether a file or folder of that name, without what is above it, is loaded or run unasked."""
    return NAMES.fullmatch(name) is not None


def is_bytecode(path: str) -> bool:
    """Whether a path is Python's compiled form of a source: whoever imports the source may run it instead."""
    return path.endswith((".pyc", ".pyo")) or "__pycache__" in path.split("/")
