# ruff: noqa: E501
"""Everyday commands in kinds of repository beside the plain ones, as data: `everyday.py` joins the modules."""

from everyday_rows import Kind, Row

PROJECT = r"""
mkdir -p src tests data
printf '%s\n' '__pycache__/' '*.py[cod]' '.venv/' 'target/' 'static/' '.ipynb_checkpoints/' 'figures/' '*.log' '*.sqlite3' > .gitignore
printf 'def total(prices):\n    return sum(prices)\n' > src/cart.py
printf '# Shop\n' > README.md
printf 'name,price\nbook,3\npen,1\nink,7\n' > data/prices.csv
"""

SECOND_REPOSITORY = r"""
git init -q -b main ../library
(cd ../library && mkdir src && printf 'ONE = 1\n' > src/one.py && git add -A && git commit -qm library)
"""

IN_WORKTREE = """\
git add -A && git commit -qm "first"
git init -q --bare -b main ../origin.git
git remote add origin "$ORIGIN" && git push -q origin HEAD:main && git fetch -q && git branch -q -u origin/main
git tag v1.0
git switch -qc feature && echo "$FEATURE" >> "$CODE" && git commit -qam "feature" && git switch -q work
git clone -q ../origin.git ../mate
(cd ../mate && echo "a line of the team" >> README.md && echo "$MATE" > "$(dirname "$CODE")/mate.txt" \
  && git add -A && git commit -qm "of the team" && git push -q origin main)
"""

KINDS = (
    Kind(
        "django",
        PROJECT
        + r"""
python3 -m venv .venv && .venv/bin/pip install -q 'django<6'
.venv/bin/django-admin startproject shop . && .venv/bin/python manage.py startapp polls
sed -i "s/INSTALLED_APPS = \[/INSTALLED_APPS = [\n    'polls',/" shop/settings.py && echo "STATIC_ROOT = 'static'" >> shop/settings.py
printf 'from django.db import models\n\n\nclass Poll(models.Model):\n    question = models.CharField(max_length=200)\n' > polls/models.py
""",
        ("src/**", "polls/**", "shop/**"),
        "polls/models.py",
        ("pypi",),
    ),
    Kind(
        "notebook",
        PROJECT
        + r"""
mkdir -p notebooks tools
python3 - <<'E'
import json
cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": ["print(1 + 1)"]}
json.dump({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, open("notebooks/sales.ipynb", "w"), indent=1)
E
cat > tools/execute.py <<'E'
import contextlib, io, json, sys
path = sys.argv[1]
book = json.load(open(path))
for n, cell in enumerate(book["cells"], 1):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec("".join(cell["source"]))
    cell["execution_count"] = n
    cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": out.getvalue().splitlines(True)}]
json.dump(book, open(path, "w"), indent=1)
E
""",
        ("notebooks/**", "src/**"),
        "src/cart.py",
    ),
    Kind(
        "build folder",
        PROJECT
        + r"""
printf 'int main(void) { return 0; }\n' > src/main.c && printf 'int one(void) { return 1; }\n' > src/one.c
cat > Makefile <<'E'
all: target/debug/main.o target/debug/one.o
	cat target/debug/*.o > target/debug/app && chmod +x target/debug/app
target/debug/%.o: src/%.c
	@mkdir -p target/debug target/deps
	cp $< $@
	echo $@ >> target/deps/log.txt
clean:
	rm -rf target
E
""",
        ("src/**",),
        "src/cart.py",
        ("make",),
    ),
    Kind(
        "submodules",
        PROJECT
        + SECOND_REPOSITORY
        + "git init -q -b main . && git -c protocol.file.allow=always submodule --quiet add ../library libs/library\n",
        ("src/**", "libs/**"),
        "src/cart.py",
    ),
    Kind(
        "worktree",
        "git init -q -b main ../main && (cd ../main && git commit -q --allow-empty -m empty && git worktree add -q ../repo -b work)\n"
        + PROJECT,
        ("src/**",),
        "src/cart.py",
        git=IN_WORKTREE,
    ),
    Kind(
        "nested",
        PROJECT + SECOND_REPOSITORY + "echo 'vendor/' >> .gitignore && mkdir vendor && mv ../library vendor/library\n",
        ("src/**",),
        "src/cart.py",
    ),
    Kind(
        "lfs",
        PROJECT
        + "git init -q -b main . && git lfs install --local > /dev/null && git lfs track '*.bin' > /dev/null && head -c 2000 /dev/zero > src/model.bin\n"
        "git config lfs.locksverify false && git config lfs.url \"$LARGE_FILES\"\n",
        ("src/**", ".gitattributes"),
        "src/cart.py",
        ("git-lfs",),
    ),
)  # fmt: skip

EVERYWHERE = tuple(kind.name for kind in KINDS)
CHANGED = 'echo "# mine" >> $CODE'

ROWS = (
    # in every kind
    Row("git status, diff, log of a project", ("git status --short && git diff --stat && git log --oneline -3",), CHANGED, kinds=EVERYWHERE),
    Row("git add, commit, show in a project", ('git add -A && git commit -qm "mine"', "git show --stat HEAD"), CHANGED, kinds=EVERYWHERE),
    Row("git stash and pop in a project", ("git stash -q", "git stash pop -q"), CHANGED, kinds=EVERYWHERE),
    Row("git pull in a project", ("git pull -q",), kinds=EVERYWHERE),
    Row("git switch and back", ("git switch -q feature", "git switch -q -"), kinds=EVERYWHERE),
    Row("git push of a commit", ('git commit -qam "mine"', "git push -q origin HEAD:topic"), CHANGED, kinds=EVERYWHERE),
    Row("search, count, compare", ("grep -rn total src | wc -l; find src -name '*.py' | sort; diff README.md .gitignore | head -2",), kinds=EVERYWHERE),
    Row("a scratch file in /tmp", ("echo one > /tmp/everyday-scratch && cat /tmp/everyday-scratch && rm /tmp/everyday-scratch",), kinds=EVERYWHERE),
    # harmless targets, and what only looks
    Row("tee /dev/null, /dev/stderr", ("echo x | tee /dev/null; echo y | tee /dev/stderr | grep y",), kinds=("python", "monorepo")),
    Row("dd, cp, sort into devices", ("dd if=README.md of=/dev/null 2>/dev/null; cp README.md /dev/stdout; sort -o /dev/stdout README.md",)),
    Row("git -C, git -c, GIT_PAGER", ("git -C src status --short && git -c core.pager=cat log -1 --format=%s && GIT_PAGER=cat git log -1 --format=%s",)),
    Row("awk compares, (( )), export", ("awk -F: '{ if ($3 > 5) n++ } END { print (n > 5) }' /etc/passwd; (( 3 > 2 )) && echo more; export FOO=bar; echo $FOO ${X:=1}",)),
    Row("ps beside ss", ("sleep 0; ps -e | grep -c git-daemon; ss -ltn | head -1",), needs=("ss",)),
    Row("a script that writes to /tmp", ("python3 -c 'open(\"/tmp/everyday-made\", \"w\").write(\"made\")'", "cat /tmp/everyday-made && rm /tmp/everyday-made")),
    Row("mktemp and trap", ("bash -c 'd=$(mktemp -d); trap \"rm -r $d\" EXIT; echo x > $d/f; cat $d/f'",)),
    Row("a change across a package", ("grep -rl answer packages/api | xargs sed -i 's/answer/reply/g'",), kinds=("monorepo",)),
    Row("cd into a package", ("cd packages/api && ls && git status --short && grep -n answer src/api.py",), kinds=("monorepo",)),
    # Django
    Row("manage.py check", (".venv/bin/python manage.py check",), kinds=("django",)),
    Row("manage.py makemigrations", (".venv/bin/python manage.py makemigrations -v 0 --no-header polls", "ls polls/migrations | grep -v pycache"), kinds=("django",)),
    Row("manage.py sqlmigrate", (".venv/bin/python manage.py makemigrations -v 0 --no-header polls && .venv/bin/python manage.py sqlmigrate polls 0001 | grep -c CREATE",), kinds=("django",)),
    Row("manage.py test", (".venv/bin/python manage.py test -v 0 2>/dev/null",), kinds=("django",)),
    Row("manage.py collectstatic", (".venv/bin/python manage.py collectstatic --noinput -v 0", "ls static"), kinds=("django",)),
    Row("manage.py shell", (".venv/bin/python manage.py shell -v 0 -c 'print(1 + 1)'",), kinds=("django",)),
    Row("manage.py startapp in scope", ("mkdir -p src/blog && .venv/bin/python manage.py startapp blog src/blog",), kinds=("django",)),
    # notebooks
    Row("executing a notebook", ("python3 tools/execute.py notebooks/sales.ipynb", "git diff --stat"), kinds=("notebook",)),
    Row("clearing a notebook's outputs", ("python3 tools/execute.py notebooks/sales.ipynb && jq '.cells[].outputs = []' notebooks/sales.ipynb > notebooks/x && mv notebooks/x notebooks/sales.ipynb",), needs=("jq",), kinds=("notebook",)),
    Row("copying a notebook", ("cp notebooks/sales.ipynb notebooks/costs.ipynb && git add notebooks && git commit -qm costs",), kinds=("notebook",)),
    Row("figures beside notebooks", ("mkdir -p figures notebooks/.ipynb_checkpoints && cp notebooks/sales.ipynb notebooks/.ipynb_checkpoints/ && echo svg > figures/a.svg",), kinds=("notebook",)),
    Row("a notebook as a script", ("jq -r '.cells[].source | join(\"\")' notebooks/sales.ipynb > src/sales.py && python3 src/sales.py",), needs=("jq",), kinds=("notebook",)),
    # a folder of build products
    Row("make, make again", ("make", "make"), kinds=("build folder",)),
    Row("make after a change", ("make -s", "echo '// more' >> src/one.c && make"), kinds=("build folder",)),
    Row("make -j4, clean", ("make -s -j4", "make clean"), kinds=("build folder",)),
    Row("a program from the build folder", ("make -s && ls -l target/debug/app | cut -c1-4",), kinds=("build folder",)),
    Row("rm -rf target && make", ("rm -rf target && make -s",), "make -s", kinds=("build folder",)),
)  # fmt: skip
