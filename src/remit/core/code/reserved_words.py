"""Reserved words of each language: they cannot name a local variable everywhere, though a grammar accepts them.

A parser for many versions of a language is lenient; a compiler is not, and a library's macros replace words.
"""

from typing import TypeAlias

WordSet: TypeAlias = frozenset[str]


def split_words(text: str) -> WordSet:
    return frozenset(text.split())


PYTHON: WordSet = split_words(
    "False None True and as assert async await break class continue def del elif else except finally for from"
    " global if import in is lambda nonlocal not or pass raise return try while with yield super"
)
SCRIPT: WordSet = split_words(
    "arguments as async await break case catch class const continue debugger default delete do else enum eval"
    " export extends false finally for function get if implements import in instanceof interface let new null of"
    " package private protected public return set static super switch this throw true try type typeof undefined"
    " using var void while with yield declare namespace module abstract any unknown never"
)
GO: WordSet = split_words(
    "break case chan const continue default defer else fallthrough for func go goto if import interface map package"
    " range return select struct switch type var"
)
RUST: WordSet = split_words(
    "abstract as async await become box break const continue crate do dyn else enum extern false final fn for gen"
    " if impl in let loop macro match mod move mut override priv pub ref return self static struct super trait true"
    " try type typeof union unsafe unsized use virtual where while yield"
)
JAVA: WordSet = split_words(
    "_ abstract assert boolean break byte case catch char class const continue default do double else enum exports"
    " extends final finally float for goto if implements import instanceof int interface long module native new non"
    " null open opens package permits private protected provides public record requires return sealed short static"
    " strictfp super switch synchronized this throw throws to transient transitive true false try uses var void"
    " volatile when while with yield"
)
C: WordSet = split_words(
    "alignas alignof asm auto bool break case char const constexpr continue default do double else enum extern"
    " false float for goto if inline int long nullptr register restrict return short signed sizeof static"
    " static_assert struct switch thread_local true typedef typeof typeof_unqual union unsigned void volatile while"
    " linux unix i386 errno stdin stdout stderr NULL EOF assert offsetof INFINITY NAN I complex imaginary major"
    " minor makedev va_start va_end va_arg va_copy setjmp near far small interface min max"
)
CPP: WordSet = C | split_words(
    "and and_eq bitand bitor catch char8_t char16_t char32_t class co_await co_return co_yield compl concept"
    " consteval constinit const_cast decltype delete dynamic_cast explicit export final friend import module mutable"
    " namespace new noexcept not not_eq operator or or_eq override private protected public reinterpret_cast"
    " requires static_cast template this throw try typeid typename using virtual wchar_t xor xor_eq"
)
RUBY: WordSet = split_words(
    "BEGIN END __ENCODING__ __FILE__ __LINE__ __method__ __callee__ __dir__ __id__ __send__ alias and begin"
    " block_given? break case class def defined? do else elsif end ensure false for if in loop module next nil not"
    " or redo rescue raise retry return self super then true undef unless until when while yield lambda proc binding"
    " it"
)
CSHARP: WordSet = split_words(
    "abstract as base bool break byte case catch char checked class const continue decimal default delegate do"
    " double else enum event explicit extern false finally fixed float for foreach goto if implicit in int interface"
    " internal is lock long namespace new null object operator out override params private protected public readonly"
    " ref return sbyte sealed short sizeof stackalloc static string struct switch this throw true try typeof uint"
    " ulong unchecked unsafe ushort using virtual void volatile while add and alias ascending async await by"
    " descending dynamic equals extension field file from get global group init into join let managed nameof nint"
    " not notnull nuint on or orderby partial record remove required scoped select set unmanaged value var when"
    " where with yield _"
)
