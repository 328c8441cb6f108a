"""Small programs with changes that keep what they do, and changes that do not.

A change is a list of replacements, made one after the other; `~name` replaces whole words only.
"""

import re
from typing import NamedTuple

Replacements = tuple[tuple[str, str], ...]


class Program(NamedTuple):
    """One file. `refactors` and `changes` are named by what they do."""

    path: str
    text: str
    refactors: dict[str, Replacements]
    changes: dict[str, Replacements]


def changed(text: str, replacements: Replacements) -> str:
    """The text with all replacements made; each has to find something."""
    for old, new in replacements:
        pattern = rf"\b{re.escape(old[1:])}\b" if old.startswith("~") else re.escape(old)
        assert re.search(pattern, text), old
        text = re.sub(pattern, lambda _, new=new: new, text)
    return text


PYTHON_MOVED = """\
def _price(*parts):
    # in cents
    total = 0
    for part in parts:
        total += part * RATE
    return total


"""
PYTHON_MOVED_RENAMED = """\



def _price(*parts):
    total = 0
    for part in parts:
        total += part * RATE
    return total"""
PYTHON_MOVED_2 = """\
    def add(self, item, count=1):
        old = self.size
        self.size = old + count
        return self.size

"""
PYTHON_MOVED_2_RENAMED = """\
    def add(self, item, count=1):
        was = self.size
        self.size = was + count
        return self.size

"""
PYTHON = Program(
    "shop.py",
    '''import os
from typing import Any

RATE = 3
LABELS = {"a": 1}


def _price(*parts):
    # in cents
    total = 0
    for part in parts:
        total += part * RATE
    return total


def visible(items, limit=10):
    names = [entry.name for entry in items if entry]
    chosen = sorted(names, key=lambda name: len(name))
    with open("x") as handle:
        seen = handle.read()
    if len(chosen) > limit and seen:
        return chosen[:limit]
    return {"names": chosen, "price": _price(1, 2)}


class Cart:
    """A cart."""

    size = 1

    def add(self, item, count=1):
        old = self.size
        self.size = old + count
        return self.size

    def drop(self, item):
        try:
            self.items.remove(item)
        except ValueError as error:
            raise KeyError(item) from error

    @property
    def empty(self):
        return self.size == 0
''',
    {
        "two spaces": (("    ", "  "),),
        "eight spaces": (("    ", "        "),),
        "a comment changes": (("# in cents", "# in whole cents, never rounded"),),
        "a comment goes": (("    # in cents\n", ""),),
        "a comment comes": (("RATE = 3", "RATE = 3  # percent"),),
        "a local is renamed": (("~total", "running"),),
        "a loop variable is renamed": (("~part", "piece"),),
        "a comprehension variable is renamed": (("entry", "row"),),
        "a file handle is renamed": (("~handle", "stream"),),
        "an exception variable is renamed": (("~error", "cause"),),
        "several locals are renamed": (("~chosen", "picked"), ("~seen", "content")),
        "two locals swap their names": (("~chosen", "§"), ("~seen", "chosen"), ("§", "seen")),
        "the name of starred parameters": (("~parts", "amounts"),),
        "a private function is renamed": (("~_price", "_cost"),),
        "the call is wrapped": (("chosen = sorted(names, key", "chosen = sorted(\n        names,\n        key"),),
        "a trailing comma": (("_price(1, 2)}", "_price(1, 2,)}"),),
        "a trailing comma in a dictionary": (("_price(1, 2)}", "_price(1, 2),\n    }"),),
        "other quotes": (('open("x")', "open('x')"),),
        "blank lines": (("\n\n\n", "\n\n"),),
        "CRLF": (("\n", "\r\n"),),
        "functions change places": (
            (PYTHON_MOVED, ""),
            ("\n\n\nclass Cart", PYTHON_MOVED_RENAMED + "\n\n\nclass Cart"),
        ),
        "methods change places": ((PYTHON_MOVED_2, ""), ("    @property", PYTHON_MOVED_2_RENAMED + "    @property")),
    },
    {
        "an operator": (("total += part", "total -= part"),),
        "a comparison": (("> limit", ">= limit"),),
        "and to or": (("limit and seen", "limit or seen"),),
        "a number": (("total = 0", "total = 1"),),
        "a constant": (("RATE = 3", "RATE = 4"),),
        "a string": (('"names":', '"name":'),),
        "a docstring": (('"""A cart."""', '"""A card."""'),),
        "another function is called": (("sorted(", "list("),),
        "another method is called": (("handle.read()", "handle.readline()"),),
        "another attribute": (("old = self.size", "old = self.count"),),
        "arguments swapped": (("_price(1, 2)", "_price(2, 1)"),),
        "parameters swapped": (("item, count=1", "count=1, item=None"),),
        "a default": (("limit=10", "limit=11"),),
        "a public parameter is renamed": (("~limit", "most"),),
        "a public function is renamed": (("def visible", "def shown"),),
        "a method is renamed": (("def drop", "def remove"),),
        "a class is renamed": (("class Cart", "class Basket"),),
        "a private function is renamed, its call is not": (("def _price", "def _cost"),),
        "a call is of another function": ((": _price(1", ": _cost(1"),),
        "a keyword is renamed": (("key=lambda", "reverse=lambda"),),
        "a local takes the name of a global": (("~total", "RATE"),),
        "a local takes the name of a builtin that is used": (("~names", "len"),),
        "a local takes the name of another": (("~chosen", "names"),),
        "one use is of another local": (("return chosen[", "return names["),),
        "a global is renamed": (("~RATE", "PERCENT"),),
        "the global is read, not the local": (("return total\n", "return RATE\n"),),
        "statements swapped": (
            ("old = self.size\n        self.size = old + count", "self.size = old + count\n        old = self.size"),
        ),
        "a statement goes": (("        self.size = old + count\n", ""),),
        "a statement leaves the loop": (("        total += part * RATE", "        pass\n    total += part * RATE"),),
        "a decorator": (("@property", "@staticmethod"),),
        "a decorator goes": (("    @property\n", ""),),
        "a base class": (("class Cart:", "class Cart(dict):"),),
        "an exception": (("except ValueError", "except TypeError"),),
        "a condition is negated": (("if entry]", "if not entry]"),),
        "an import": (("import os", "import sys"),),
        "a slice": (("chosen[:limit]", "chosen[limit:]"),),
        "constants change places": (('RATE = 3\nLABELS = {"a": 1}', 'LABELS = {"a": 1}\nRATE = 3'),),
        "a tuple comes to be": (("total = 0", "total = 0,"),),
        "async": (("def visible", "async def visible"),),
        "global": (("    total = 0", "    global total\n    total = 0"),),
        "a method moves to another class": (
            (
                "    @property\n    def empty(self):\n        return self.size == 0\n",
                "\n\nclass Other:\n    @property\n    def empty(self):\n        return self.size == 0\n",
            ),
        ),
        "a coding line": (("import os\n", "# coding: latin-1\nimport os\n"),),
        "an annotation": (("def visible(items,", "def visible(items: Any,"),),
        "a function moves below a call of it": (
            ('RATE = 3\nLABELS = {"a": 1}\n', ""),
            ("class Cart", 'RATE = _price(3)\nLABELS = {"a": 1}\n\n\nclass Cart'),
        ),
    },
)

JAVASCRIPT_MOVED = """\
function price(first, ...rest) {
  let total = first;
  for (const part of rest) { total += part * RATE; }
  return total;
}

"""
JAVASCRIPT_MOVED_RENAMED = """\
function price(a, ...rest) {
  let t = a;
  for (const part of rest) { t += part * RATE; }
  return t;
}

"""
JAVASCRIPT_MOVED_2 = """\
  drop(item) { return delete this.items[item]; }
"""
JAVASCRIPT = Program(
    "shop.js",
    """import { fetchAll, other } from './net.js';
// how much
const RATE = 3;

function price(first, ...rest) {
  let total = first;
  for (const part of rest) { total += part * RATE; }
  return total;
}

export function visible(items, { limit, most: cap = 5 }) {
  const names = items.map((entry) => entry.name);
  const label = `n ${names.length}`;
  try { other(names); } catch (error) { console.log(error); }
  if (names.length > cap && limit) return fetchAll(names, limit);
  return { names, label: label, sum: price(1, 2) };
}

export class Cart {
  #size = 1;
  add(item, count) { const old = this.#size; this.#size = old + count; return old; }
  drop(item) { return delete this.items[item]; }
}
""",
    {
        "four spaces": (("\n  ", "\n    "),),
        "a comment goes": (("// how much\n", ""),),
        "a comment comes": (("let total", "/* so far */ let total"),),
        "a parameter is renamed": (("~first", "start"),),
        "rest parameters are renamed": (("~rest", "others"),),
        "a local is renamed": (("~total", "sum_"),),
        "a loop variable is renamed": (("~part", "piece"),),
        "an arrow's parameter is renamed": (("~entry", "row"),),
        "a pattern's local name is renamed": (("~cap", "top"),),
        "an exception variable is renamed": (("~error", "cause"),),
        "method locals are renamed": (("~old", "was"), ("~count", "n")),
        "a function of the module is renamed": (("~price", "cost"),),
        "no semicolons": ((";\n", "\n"),),
        "other quotes": (("'./net.js'", '"./net.js"'),),
        "trailing commas": (("price(1, 2) }", "price(1, 2), }"),),
        "lines are broken": (("fetchAll(names, limit)", "fetchAll(\n    names,\n    limit,\n  )"),),
        "functions change places": (
            (JAVASCRIPT_MOVED, ""),
            ("export class", JAVASCRIPT_MOVED_RENAMED + "export class"),
        ),
        "methods change places": ((JAVASCRIPT_MOVED_2, ""), ("  add(item", JAVASCRIPT_MOVED_2 + "  add(item")),
    },
    {
        "an operator": (("part * RATE", "part / RATE"),),
        "a comparison": (("> cap", "< cap"),),
        "and to or": (("&& limit", "|| limit"),),
        "a number": (("RATE = 3", "RATE = 2"),),
        "a string": (("`n ", "`m "),),
        "another function is called": (("fetchAll(names", "other(names"),),
        "another import": (("fetchAll, other", "other, fetchAll"),),
        "arguments swapped": (("(names, limit)", "(limit, names)"),),
        "a member": (("entry.name", "entry.id"),),
        "a default": (("cap = 5", "cap = 6"),),
        "a property is renamed by a shorthand": (("~names", "list"),),
        "a destructured key is renamed": (("~limit", "maximum"),),
        "another key is taken": (("most: cap", "least: cap"),),
        "an exported function is renamed": (("~visible", "shown"),),
        "a class is renamed": (("~Cart", "Basket"),),
        "a method is renamed": (("drop(item)", "remove(item)"),),
        "a local takes the name of a constant": (("~total", "RATE"),),
        "a local takes the name of an import": (("~label", "other"),),
        "one use is of another name": (("return total", "return first"),),
        "let to var": (("let total", "var total"),),
        "const to let": (("const names", "let names"),),
        "of to in": (("of rest", "in rest"),),
        "a private field is public": (("#size", "size"),),
        "a statement goes": (("this.#size = old + count; ", ""),),
        "a return breaks": (("return fetchAll", "return\n    fetchAll"),),
        "async": (("function price", "async function price"),),
        "an export": (("function price", "export function price"),),
        "strict equality": (("> cap", "=== cap"),),
        "delete goes": (("delete this", "this"),),
        "a key is renamed": (("label: label", "title: label"),),
        "static": (("drop(item)", "static drop(item)"),),
    },
)

TYPESCRIPT = Program(
    "shop.ts",
    """import { Net } from './net';
interface Shape { name: string; size?: number }
enum Kind { A = 1, B }
function area(shape: Shape, factor: number): number {
  const size = shape.size ?? 0;
  return size * factor;
}
export class Cart {
  constructor(private net: Net, start: number) { this.total = start; }
  total = 0;
  add<T extends Shape>(item: T, times = 1): number {
    let found = 0;
    for (let i = 0; i < times; i++) { found += area(item, i); }
    return found;
  }
}
export const run = (shapes: Shape[]): number[] => shapes.map((s) => area(s, 2));
""",
    {
        "four spaces": (("\n  ", "\n    "),),
        "a parameter is renamed": (("~factor", "times_"),),
        "a local is renamed": (("~found", "sum_"),),
        "a loop variable is renamed": (
            ("let i = 0; i < times; i++", "let n = 0; n < times; n++"),
            ("(item, i)", "(item, n)"),
        ),
        "a function of the module is renamed": (("~area", "surface"),),
        "a constructor's parameter is renamed": (("~start", "begin"),),
        "a comment comes": (("total = 0;", "total = 0; // cents"),),
        "an arrow's parameter is renamed": (("(s) => area(s, 2)", "(each) => area(each, 2)"),),
        "no semicolons": ((";\n", "\n"),),
    },
    {
        "a parameter property is renamed": (("private net", "private network"),),
        "a type": (("factor: number", "factor: string"),),
        "an operator": (("?? 0", "|| 0"),),
        "a number": (("A = 1", "A = 2"),),
        "optional": (("size?:", "size:"),),
        "a member of an interface": (("name: string", "title: string"),),
        "an enum's order": (("A = 1, B", "B, A = 1"),),
        "an access": (("private net", "public net"),),
        "a condition": (("i < times", "i <= times"),),
        "an exported constant is renamed": (("const run", "const start_"),),
        "a call": (("area(item, i)", "Math.max(item, i)"),),
        "a bound": (("T extends Shape", "T extends Net"),),
    },
)

TSX = Program(
    "view.tsx",
    """import { Button } from './button';
function label(count: number) { return `n ${count}`; }
export function View({ items }: Props) {
  const shown = items.length;
  return <div title={label(shown)}>{items.map((entry) => <Button key={entry.id}>{entry.name}</Button>)} all</div>;
}
""",
    {
        "a local is renamed": (("~shown", "visible"),),
        "an arrow's parameter is renamed": (("~entry", "row"),),
        "a function of the module is renamed": (("label(", "caption("),),
        "a comment comes": (("const shown", "// how many\n  const shown"),),
    },
    {
        "an element": (("Button", "Link"),),
        "an attribute": (("title=", "alt="),),
        "a text": (("} all<", "} some<"),),
        "a space between elements": (("} all<", "}all<"),),
        "a property is renamed": (("~items", "rows"),),
        "a member": (("entry.name", "entry.id"),),
    },
)

GO_MOVED = """\
func parts(item string) []int {
	var found []int
	return append(found, len(item))
}

"""
GO = Program(
    "shop.go",
    """package shop

import "fmt"

//go:generate stringer
const rate = 3

type Cart struct{ size int }

// Add adds.
func (c *Cart) Add(item string, count int) (total int, err error) {
	old := c.size
	for i, part := range parts(item) {
		old += part * i
	}
	if n := count; n > rate {
		return n, fmt.Errorf("too many: %d", n)
	}
	c.size = old
	return old, nil
}

func parts(item string) []int {
	var found []int
	return append(found, len(item))
}

func Show(c Cart) string {
	return fmt.Sprint(Cart{size: c.size}, parts("x"))
}
""",
    {
        "spaces": (("\t", "    "),),
        "a comment goes": (("// Add adds.\n", ""),),
        "a receiver is renamed": (
            ("(c *Cart)", "(cart *Cart)"),
            ("old := c.size", "old := cart.size"),
            ("c.size = old", "cart.size = old"),
        ),
        "a local is renamed": (("~old", "was"),),
        "loop variables are renamed": (("i, part", "n_, p"), ("part * i", "p * n_")),
        "an if's variable is renamed": (
            ("n := count; n > rate", "m := count; m > rate"),
            ("return n,", "return m,"),
            ('%d", n)', '%d", m)'),
        ),
        "a parameter is renamed": (("~count", "times"),),
        "a declared local is renamed": (("~found", "out"),),
        "functions change places": ((GO_MOVED, ""), ("// Add", GO_MOVED + "// Add")),
        "a line is broken": (("append(found, len(item))", "append(\n\t\tfound,\n\t\tlen(item),\n\t)"),),
    },
    {
        "an operator": (("part * i", "part + i"),),
        "a comparison": (("n > rate", "n >= rate"),),
        "a constant": (("rate = 3", "rate = 4"),),
        "a string": (("too many", "so many"),),
        "a call": (("fmt.Sprint(", "fmt.Sprintln("),),
        "a field": (("struct{ size int }", "struct{ length int }"),),
        "an unexported function is renamed": (("~parts", "pieces"),),
        "an exported function is renamed": (("Show", "Print"),),
        "arguments swapped": (("append(found, len(item))", "append(len(item), found)"),),
        "results swapped": (("return old, nil", "return nil, old"),),
        "a pointer": (("(c *Cart)", "(c Cart)"),),
        "a directive goes": (("//go:generate stringer\n", ""),),
        "a directive changes": (("go:generate stringer", "go:generate mockgen"),),
        "a local takes the name of a constant": (("~old", "rate"),),
        "a parameter takes the name of a package": (("~count", "fmt"),),
        "declaring to assigning": (("old := c", "old = c"),),
        "a statement goes": (("\tc.size = old\n", ""),),
        "a key": (("{size:", "{length:"),),
        "range is over another": (("range parts(item)", 'range parts("")'),),
        "a global loop variable": (("i, part := range", "i, part = range"),),
    },
)

RUST_MOVED = """\
    fn find(&self, wanted: i64) -> Option<i64> {
        println!("{} {}", wanted, self.size);
        [1, 2].iter().map(|each| each + wanted).max()
    }
"""
RUST = Program(
    "shop.rs",
    """use std::fmt;

const RATE: i64 = 3;

#[derive(Debug)]
pub struct Cart { size: i64 }

/// Adds.
#[inline]
fn price(first: i64, rest: &[i64]) -> i64 {
    let mut total = first;
    for part in rest { total += part * RATE; }
    total
}

impl Cart {
    pub fn add(&mut self, count: i64) -> Option<i64> {
        let old = self.size;
        let (low, high) = (old, old + count);
        self.size = price(low, &[high]);
        match self.find(old) {
            Some(hit) if hit > 1 => Some(hit),
            _ => None,
        }
    }

    fn find(&self, wanted: i64) -> Option<i64> {
        println!("{} {}", wanted, self.size);
        [1, 2].iter().map(|each| each + wanted).max()
    }
}

impl fmt::Display for Cart {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result { write!(f, "{}", self.size) }
}
""",
    {
        "two spaces": (("    ", "  "),),
        "a comment comes": (("    total\n", "    // cents\n    total\n"),),
        "parameters are renamed": (("~first", "start"), ("~rest", "others")),
        "a local is renamed": (("~total", "sum"),),
        "a loop variable is renamed": (("~part", "piece"),),
        "a pattern is renamed": (("~low", "a"), ("~high", "b")),
        "a match arm's name is renamed": (("~hit", "x"),),
        "a name in a macro is renamed": (("~wanted", "sought"),),
        "a closure's parameter is renamed": (("~each", "one"),),
        "a private function is renamed": (("~count", "n"),),
        "methods change places": ((RUST_MOVED, ""), ("    pub fn add", RUST_MOVED + "    pub fn add")),
    },
    {
        "an operator": (("part * RATE", "part - RATE"),),
        "a number": (("RATE: i64 = 3", "RATE: i64 = 4"),),
        "a type": (("count: i64", "count: i32"),),
        "a semicolon": (("    total\n", "    total;\n"),),
        "a guard": (("hit > 1", "hit > 2"),),
        "a call": ((".max()", ".min()"),),
        "arguments swapped": (("price(low, &[high])", "price(high, &[low])"),),
        "an attribute": (("#[inline]", "#[cold]"),),
        "an attribute goes": (("#[inline]\n", ""),),
        "a documentation comment": (("/// Adds.", "/// Subtracts."),),
        "a derive": (("derive(Debug)", "derive(Clone)"),),
        "a format": (('"{} {}"', '"{} - {}"'),),
        "a public method is renamed": (("fn add", "fn plus"),),
        "a local takes the name of a constant": (("~total", "RATE"),),
        "one use is of another": (("Some(hit),", "Some(old),"),),
        "a mutable reference": (("&mut self, count", "&self, count"),),
        "visibility": (("    fn find", "    pub fn find"),),
        "a trait": (("impl fmt::Display", "impl fmt::Debug"),),
        "a name comes into a format": (('"{} {}", wanted', '"{wanted} {}", 1'),),
    },
)

JAVA_MOVED = """\
    private void check(int value, int other) { if (value > other) throw new IllegalStateException("no"); }
"""
JAVA = Program(
    "Shop.java",
    """package shop;
import java.util.List;
public class Shop extends Base {
    private static final int RATE = 3;
    private int size = 0;
    @Override
    public int add(int first, List<Integer> rest) {
        int total = first;
        for (int part : rest) { total += part * RATE; }
        for (int i = 0; i < total; i++) { size = size + i; }
        try { check(total, first); } catch (IllegalStateException error) { log(error.getMessage()); }
        Runnable task = () -> log("x");
        return rest.stream().map(each -> each + 1).reduce(0, (left, right) -> left - right) + total;
    }
    private void check(int value, int other) { if (value > other) throw new IllegalStateException("no"); }
    public int web(@Named String id) { return id.length(); }
}
""",
    {
        "two spaces": (("    ", "  "),),
        "a comment comes": (("int total", "/* so far */ int total"),),
        "a parameter is renamed": (("~first", "start"),),
        "a local is renamed": (("~total", "sum"),),
        "a loop variable is renamed": (("~part", "piece"),),
        "a counter is renamed": (("int i = 0; i < total; i++", "int n = 0; n < total; n++"), ("size + i", "size + n")),
        "an exception variable is renamed": (("~error", "cause"),),
        "a lambda's parameter is renamed": (("~each", "one"),),
        "a lambda's parameters are renamed": (("~left", "a"), ("~right", "b")),
        "methods change places": ((JAVA_MOVED, ""), ("    @Override", JAVA_MOVED + "    @Override")),
        "one line": (("\n    ", " "),),
    },
    {
        "an operator": (("part * RATE", "part / RATE"),),
        "a number": (("RATE = 3", "RATE = 4"),),
        "a comparison": (("value > other", "value >= other"),),
        "arguments swapped": (("check(total, first)", "check(first, total)"),),
        "a string": (('"no"', '"yes"'),),
        "a field's name is taken": (("~total", "size"),),
        "a method is renamed": (("int add", "int plus"),),
        "an annotation goes": (("    @Override\n", ""),),
        "an annotated parameter is renamed": (("~id", "name"),),
        "visibility": (("private void check", "public void check"),),
        "a base class": (("extends Base", "extends Other"),),
        "an exception": (("catch (IllegalStateException", "catch (RuntimeException"),),
        "a call": (("error.getMessage()", "error.toString()"),),
        "fields change places": (
            (
                "    private static final int RATE = 3;\n    private int size = 0;\n",
                "    private int size = 0;\n    private static final int RATE = 3;\n",
            ),
        ),
        "a lambda's parameters swap their use": (("left - right", "right - left"),),
        "final goes": (("static final int", "static int"),),
    },
)

C = Program(
    "shop.c",
    """#include <stdio.h>
#define SCALE(x) ((x) * factor)
static int rate = 3;

static int price(int first, const int *rest)
{
    int total = first;
    for (int i = 0; i < 3; i++) {
        total += rest[i] * rate;
    }
    return total;
}

int show(struct cart *c, int factor)
{
    int found = price(c->size, c->parts);
    printf("%d %d", found, SCALE(2));
    if (found > rate && c->size)
        goto out;
    return found;
out:
    return 0;
}
""",
    {
        "tabs": (("    ", "\t"),),
        "a comment comes": (("return found;", "return found; /* cents */"),),
        "parameters are renamed": (("~first", "start"), ("~rest", "others")),
        "a local is renamed": (("~total", "sum"),),
        "a counter is renamed": (("~i", "n"),),
        "another local is renamed": (("~found", "hit"),),
        "a static function is renamed": (("~price", "cost"),),
        "braces stand elsewhere": ((")\n{", ") {"),),
    },
    {
        "an operator": (("* rate", "+ rate"),),
        "a number": (("rate = 3", "rate = 4"),),
        "a comparison": (("found > rate", "found < rate"),),
        "a format": (("%d %d", "%d,%d"),),
        "a member": (("c->size, c->parts", "c->parts, c->size"),),
        "a macro": (("((x) * factor)", "((x) + factor)"),),
        "a name that a macro uses": (("int factor", "int other"),),
        "a public function is renamed": (("int show", "int print"),),
        "a local takes the name of a global": (("~total", "rate"),),
        "static goes": (("static int price", "int price"),),
        "a type": (("int total", "long total"),),
        "an include": (("<stdio.h>", "<stdlib.h>"),),
        "and to or": (("&& c->size", "|| c->size"),),
        "a call": (("found = price(", "found = other("),),
        "a pointer": (("const int *rest", "const int rest[]"),),
        "a loop's bound": (("i < 3", "i < 4"),),
    },
)

CPP = Program(
    "shop.cpp",
    """#include <vector>
namespace shop {
template <typename T> T twice(T value) { return value + value; }
class Cart : public Base {
public:
    int add(int first, const std::vector<int>& rest) {
        int total = first;
        for (auto part : rest) { total += part * rate; }
        auto later = [total](int more) { return total - more; };
        return later(twice(2));
    }
private:
    int rate = 3;
};
}
""",
    {
        "two spaces": (("    ", "  "),),
        "a comment comes": (("int total", "// cents\n        int total"),),
        "a parameter is renamed": (("~first", "start"),),
        "a local is renamed": (("~later", "fn"),),
        "a loop variable is renamed": (("~part", "piece"),),
        "a lambda's parameter is renamed": (("~more", "extra"),),
        "a template's parameter is renamed": (("~value", "v"),),
        "a captured local is renamed": (("~total", "sum"),),
    },
    {
        "an operator": (("total - more", "more - total"),),
        "a number": (("rate = 3", "rate = 4"),),
        "a member's name is taken": (("~total", "rate"),),
        "visibility": (("private:", "protected:"),),
        "a base class": (("public Base", "public Other"),),
        "a method is renamed": (("int add", "int plus"),),
        "a capture by reference": (("[total]", "[&total]"),),
        "a copy": (("auto part", "auto& part"),),
        "a namespace": (("namespace shop", "namespace store"),),
        "a call": (("later(twice(2))", "later(2)"),),
    },
)

RUBY_MOVED = """\
  def price(one, two = 1)
    one - two
  end
"""
RUBY = Program(
    "shop.rb",
    """# frozen_string_literal: true
class Cart < Base
  attr_reader :size
  RATE = 3

  # adds
  def add(first, *rest)
    total = first
    rest.each { |part| total += part * RATE }
    low, high = total, size
    puts "#{total} done"
    low > high ? price(low, high) : nil
  rescue KeyError => error
    raise error
  end

  def price(one, two = 1)
    one - two
  end
end
""",
    {
        "four spaces": (("\n  ", "\n    "),),
        "a comment goes": (("  # adds\n", ""),),
        "a parameter is renamed": (("~first", "start"),),
        "a local is renamed": (("~total", "sum"),),
        "a block's parameter is renamed": (("~part", "piece"),),
        "locals of one assignment are renamed": (("~low", "a"), ("~high", "b")),
        "an exception variable is renamed": (("~error", "cause"),),
        "methods change places": ((RUBY_MOVED, ""), ("  # adds", RUBY_MOVED + "  # adds")),
    },
    {
        "an operator": (("one - two", "one + two"),),
        "a number": (("RATE = 3", "RATE = 4"),),
        "a string": (("} done", "} gone"),),
        "a method's name is taken": (("~total", "size"),),
        "a method is renamed": (("~price", "cost"),),
        "arguments swapped": (("price(low, high)", "price(high, low)"),),
        "a magic comment": (("literal: true", "literal: false"),),
        "a symbol": ((":size", ":length"),),
        "a default": (("two = 1", "two = 2"),),
        "a base class": (("< Base", "< Other"),),
        "an exception": (("KeyError", "IndexError"),),
        "a branch": (("? price(low, high) : nil", "? nil : price(low, high)"),),
        "visibility": (("  def price", "  private\n\n  def price"),),
        "a call instead of a local": (("one - two", "one - three"),),
    },
)

CSHARP_MOVED = """\
        private void Check(int value, int other) { if (value > other) throw new Exception("no"); }
"""
CSHARP = Program(
    "Shop.cs",
    """using System;
namespace Store {
    public class Cart : Base {
        private const int Rate = 3;
        private int size = 0;
        public int Add(int first, int[] rest) {
            int total = 0;
            foreach (var part in rest) { total += part * Rate; }
            for (int i = 0; i < total; i++) { size = size + i; }
            try { Check(total, other: first); } catch (Exception error) { Log(error.Message); }
            Func<int, int> twice = each => each + total;
            var made = new Item { Name = "x" };
            var pair = new { total };
            return twice(size);
        }
        private void Check(int value, int other) { if (value > other) throw new Exception("no"); }
    }
}
""",
    {
        "two spaces": (("    ", "  "),),
        "a comment comes": (("int total", "/* cents */ int total"),),
        "a loop variable is renamed": (("~part", "piece"),),
        "a counter is renamed": (("int i = 0; i < total; i++", "int n = 0; n < total; n++"), ("size + i", "size + n")),
        "an exception variable is renamed": (("~error", "cause"),),
        "a local is renamed": (("~twice", "fn"),),
        "methods change places": (
            (CSHARP_MOVED, ""),
            ("        public int Add", CSHARP_MOVED + "        public int Add"),
        ),
    },
    {
        "an operator": (("part * Rate", "part / Rate"),),
        "a number": (("Rate = 3", "Rate = 4"),),
        "a name that an anonymous type takes": (("~total", "sum"),),
        "a parameter that callers may name": (("~first", "start"),),
        "a field's name is taken": (("~made", "size"),),
        "a property": (("{ Name =", "{ Title ="),),
        "a named argument": (("other: first", "value: first"),),
        "a method is renamed": (("int Add", "int Plus"),),
        "a string": (('"no"', '"yes"'),),
        "visibility": (("private void", "internal void"),),
        "an exception": (("catch (Exception", "catch (SystemException"),),
        "a member": (("error.Message", "error.Source"),),
    },
)

PHP_MOVED = """\
    public function add($item) {
        $old = $this->size;
        $this->size = price($old, 1);
        return $old;
    }
"""
PHP = Program(
    "shop.php",
    """<?php
namespace Store;
function price($first, ...$rest) {
    global $rate;
    $total = $first;
    foreach ($rest as $key => $part) { $total += $part * $rate; }
    $twice = fn($each) => $each + $total;
    return "n $total" . $twice(2);
}
class Cart extends Base {
    private $size = 1;
    public function add($item) {
        $old = $this->size;
        $this->size = price($old, 1);
        return $old;
    }
    /** @Route("/x") */
    private function drop() { return self::$kept; }
}
""",
    {
        "two spaces": (("    ", "  "),),
        "a comment comes": (("$total = $first", "// cents\n    $total = $first"),),
        "a local is renamed": (("$total", "$sum"),),
        "a loop variable is renamed": (("$part", "$piece"),),
        "a key is renamed": (("$key", "$k"),),
        "a method's local is renamed": (("$old", "$was"),),
        "methods change places": ((PHP_MOVED, ""), ("self::$kept; }\n", "self::$kept; }\n" + PHP_MOVED)),
    },
    {
        "an operator": (("* $rate", "+ $rate"),),
        "a number": (("size = 1", "size = 2"),),
        "a parameter that callers may name": (("$first", "$start"),),
        "a global is renamed": (("$rate", "$other"),),
        "a string": (('"n ', '"m '),),
        "a method is renamed": (("function add", "function plus"),),
        "a member": (("$this->size;", "$this->length;"),),
        "a static member": (("self::$kept", "self::$other"),),
        "this": (("$old = $this->size", "$this = $old->size"),),
        "a doc comment that a framework reads": (('@Route("/x")', '@Route("/y")'),),
        "arguments swapped": (("price($old, 1)", "price(1, $old)"),),
        "one local becomes another": (("return $old", "return $item"),),
    },
)

BASH = Program(
    "shop.sh",
    """#!/bin/bash
# sums
rate=3
price() {
    local total=0
    for part in "$@"; do
        total=$((total + part * rate))
    done
    echo "$total" | sort > out.txt
}
if [ "$1" = run ]; then
    price 1 2 && echo done
fi
cat <<END
 hello $rate
END
""",
    {
        "two spaces": (("    ", "  "),),
        "a comment goes": (("# sums\n", ""),),
        "a comment comes": (("rate=3", "rate=3 # percent"),),
        "blank lines": (("price() {", "\nprice() {\n"),),
    },
    {
        "an operator": (("part * rate", "part / rate"),),
        "a number": (("rate=3", "rate=4"),),
        "and to or": (("&& echo", "|| echo"),),
        "a redirection": (("> out.txt", ">> out.txt"),),
        "quotes": (('"$total"', "$total"),),
        "a command": (("| sort", "| uniq"),),
        "an argument": (("price 1 2", "price 1 3"),),
        "arguments join": (("price 1 2", "price 12"),),
        "a here-document": ((" hello", "hello"),),
        "an interpreter": (("#!/bin/bash", "#!/bin/sh"),),
        "a variable is renamed": (("~total", "sum"),),
        "in the background": (("echo done", "echo done &"),),
        "local goes": (("local total", "total"),),
    },
)

JSON = Program(
    "package.json",
    '{\n  "name": "x",\n  "scripts": {"test": "a b", "n": [1, 2]}\n}\n',
    {"reindent": (("\n  ", "\n      "),), "one line": (("\n", " "),)},
    {
        "a key": (("name", "title"),),
        "a value": (("a b", "a  b"),),
        "an order": (("[1, 2]", "[2, 1]"),),
        "a type": (('"x"', "1"),),
    },
)

YAML = Program(
    "ci.yaml",
    "# c\non: push\njobs:\n  test:\n    run: |\n      make\n      test\n    env: {A: 1, B: 'two'}\n",
    {"a comment goes": (("# c\n", ""),), "a comment comes": (("on: push", "on: push # now"),)},
    {
        "a value": (("push", "pull"),),
        "a key": (("run", "runs"),),
        "a script": (("make\n", "make all\n"),),
        "a type": (("A: 1", "A: '1'"),),
        "a nesting": (("    env", "  env"),),
    },
)

TOML = Program(
    "x.toml",
    '# c\nname = "x"\n[tool.a]\nlist = [1, 2]\nd.e = {f = 1}\n',
    {"a comment goes": (("# c\n", ""),), "spaces": (("list = [", "list   =   [ "),)},
    {
        "a value": (('"x"', '"y"'),),
        "a table": (("tool.a", "tool.b"),),
        "a key": (("list", "lists"),),
        "a space in a string": (('"x"', '"x "'),),
    },
)

MARKDOWN = Program(
    "a.md", "# T\n\ntext\n\n## U\n\nmore\n", {}, {"a word": (("more", "less"),), "a heading": (("## U", "# U"),)}
)

PROGRAMS = (
    PYTHON,
    JAVASCRIPT,
    TYPESCRIPT,
    TSX,
    GO,
    RUST,
    JAVA,
    C,
    CPP,
    RUBY,
    CSHARP,
    PHP,
    BASH,
    JSON,
    YAML,
    TOML,
    MARKDOWN,
)
