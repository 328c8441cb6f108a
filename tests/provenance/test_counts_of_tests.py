"""Counts of tests, assertions and skips, language by language."""

import pytest

from remit.provenance.verify.weakened_tests import NO_TESTS, PATTERNS_BY_LANGUAGE, CaseCounts, count_tests

PYTHON = '''
"""def test_in_a_text(): assert 1"""
import pytest


class TestIt:
    @pytest.mark.skip(reason="later")
    def test_a(self):
        assert f(1) == 2
        self.assertEqual(1, f(2))
        assert True
        self.assertTrue(True)
        # assert g()

    async def test_b(self):
        with pytest.raises(ValueError):
            f()
        mock.assert_called_once()


def helper():
    pytest.skip("not here")
'''
SCRIPT = """
describe('a', () => {
  it('works', () => { expect(f(1)).toBe(2); expect(true).toBe(true); /* expect(1) */ });
  it.skip('later', () => { assert.equal(f(1), 2); });
  xit('no', () => {});
  test.each([1])('x %d', () => { expect.soft(g()).toBe("it('no')"); });
  describe.only('b', () => {});
  exit(1); submit(2); obj.test(3);
});
"""
GO = """
package a
func TestA(t *testing.T) { if f() != 1 { t.Errorf("no") }; require.NoError(t, err) }
func TestB(t *testing.T) { t.Skip("later") } // t.Fatal("x")
func helper() {}
"""
RUST = """
#[test]
fn a() { assert_eq!(f(), 1); assert!(true); }
#[tokio::test]
#[ignore]
async fn b() { assert!(g()); }
fn c() {} // #[test]
"""
JAVA = """
class A { @Test void a() { assertEquals(1, f()); assertTrue(true); }
  @Disabled @Test void b() { Assertions.assertThrows(X.class, () -> f()); } }
"""
CSHARP = """
class A { [Fact] public void B() { Assert.Equal(1, F()); Assert.True(true); }
  [Fact(Skip = "later")] public void C() { x.Should().Be(1); } }
"""
RUBY = """
describe A do
  it "works" do
    expect(f).to eq(1)
  end
  xit "later" do
    assert_equal 1, f
  end
end
"""
PHP = """<?php
class A extends TestCase { public function testA() { $this->assertSame(1, f()); $this->assertTrue(true); }
  #[Test] public function b() { $this->markTestSkipped('x'); } }
"""
CPP = """
TEST(A, B) { EXPECT_EQ(1, f()); ASSERT_TRUE(true); }
TEST_F(A, DISABLED_C) { REQUIRE(g()); }
"""
C = """
void test_a(void) { TEST_ASSERT_EQUAL(1, f()); assert(1); }
static void test_b(void) { assert(g() == 2); TEST_IGNORE(); }
"""
BASH = """
@test "adds" {
  [ "$x" -eq 2 ]
  assert_equal 1 2
}
@test "later" {
  skip
}
"""

ROWS = [
    ("tests/test_a.py", PYTHON, CaseCounts(2, 4, 2)),
    ("a.test.js", SCRIPT, CaseCounts(4, 3, 3)),
    ("a.spec.ts", SCRIPT, CaseCounts(4, 3, 3)),
    ("a.test.tsx", SCRIPT, CaseCounts(4, 3, 3)),
    ("a_test.go", GO, CaseCounts(2, 2, 1)),
    ("tests/a.rs", RUST, CaseCounts(2, 2, 1)),
    ("test/ATest.java", JAVA, CaseCounts(2, 2, 1)),
    ("ATests.cs", CSHARP, CaseCounts(2, 2, 1)),
    ("a_spec.rb", RUBY, CaseCounts(2, 2, 1)),
    ("tests/ATest.php", PHP, CaseCounts(2, 1, 1)),
    ("tests/a.cpp", CPP, CaseCounts(2, 2, 1)),
    ("tests/a.c", C, CaseCounts(2, 2, 1)),
    ("test/a.bash", BASH, CaseCounts(2, 2, 1)),
]


def count_cases(path: str, content: bytes | None) -> CaseCounts | None:
    counted = count_tests(path, content)
    return counted.counts if counted is not None else None


@pytest.mark.parametrize(("path", "text", "expected"), ROWS, ids=[row[0] for row in ROWS])
def test_tests_assertions_and_skips_are_counted(path: str, text: str, expected: CaseCounts) -> None:
    assert count_cases(path, text.encode()) == expected


def test_every_counted_language_has_a_row() -> None:
    assert len(ROWS) == len(PATTERNS_BY_LANGUAGE)


def test_commented_out_tests_do_not_count() -> None:
    text = "def test_a():\n    assert f()\n"
    assert count_cases("test_a.py", f'"""\n{text}"""\n'.encode()) == NO_TESTS
    assert count_cases("test_a.py", "".join(f"# {line}\n" for line in text.splitlines()).encode()) == NO_TESTS
    assert count_cases("a.test.js", b"/*\nit('a', () => { expect(f()).toBe(1) })\n*/\n") == NO_TESTS


def test_an_unknown_language_has_no_counts() -> None:
    assert count_cases("tests/data.json", b"{}") is None
    assert count_cases("tests/test_a.xyz", b"assert") is None
    assert count_cases("tests/test_a.py", None) == NO_TESTS
    assert count_cases("tests/test_a.py", b"def test_a(:\n  assert\xff\n") in (
        None,
        CaseCounts(1, 1, 0),
        CaseCounts(1, 0, 0),
        NO_TESTS,
    )
