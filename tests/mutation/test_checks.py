"""What counts as a check, and how each is weakened."""

import ast

import pytest
from tests.mutation.checks import mutants_of, mutated

# The body of a function, and what is changed in it: the whole list, in order.
CASES = {
    "a condition that refuses": (
        "if a: raise E",
        ["`if a` never holds"],
    ),
    "one that returns, and one that hands a finding out": (
        "if a: return 'why'\nif b: yield 'why'",
        ["`if a` never holds", "`if b` never holds"],
    ),
    "one that calls what raises": (
        "if a: where.refuse(1)",
        ["`if a` never holds"],
    ),
    "one that notes what it found": ("if a: found.append(1)", ["`if a` never holds"]),
    "one that keeps what is wrong": ("if a: self._fault = b", ["`if a` never holds"]),
    "one that only computes is no check": ("if a: b = 1", []),
    "a value by default is no check": ("return a or []", []),
    "each operand": (
        "if a or b or c: raise E",
        [
            "`if a or b or c` never holds",
            "operand 1 of `a or b or c` is left out",
            "operand 2 of `a or b or c` is left out",
            "operand 3 of `a or b or c` is left out",
        ],
    ),
    "a bound is moved by one": ("if a < b: raise E", ["`if a < b` never holds", "`a < b` becomes `a <= b`"]),
    "an answer of yes or no": (
        "return a == b",
        ["`return a == b` is always True", "`return a == b` is always False"],
    ),
    "each element of any()": (
        "ok = any(x == b for x in a)",
        ["`x == b` inside `any((x == b for x in a))` is taken as True"],
    ),
    "a call that stands alone": (
        "check_all(a)\nself._require(b)\nprint(c)",
        ["`check_all(a)` is left out", "`self._require(b)` is left out"],
    ),
    "and what it is told": (
        "need(a and not b, 'why')",
        [
            "`need(a and (not b), 'why')` is left out",
            "operand 1 of `a and (not b)` is left out",
            "operand 2 of `a and (not b)` is left out",
        ],
    ),
    "what an except turns into a refusal": (
        "try: a()\nexcept OSError as fault: raise E from fault",
        ["`raise E from fault` is left out"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_checks_of_a_function(case):
    body, changes = CASES[case]
    source = "def f():\n" + "\n".join(f"    {line}" for line in body.split("\n")) + "\n"
    mutants = mutants_of("m.py", source)
    assert [mutant.change for mutant in mutants] == changes
    assert len({mutant.key for mutant in mutants}) == len(changes)
    for mutant in mutants:
        changed = mutated(source, mutant)
        assert ast.unparse(changed) != ast.unparse(ast.parse(source))
        compile(changed, "m.py", "exec")


def test_what_a_mutant_is_made_into():
    source = "class C:\n    x = 1\n    def f(self):\n        if a and not b: raise E\n"
    made = [ast.unparse(mutated(source, mutant)).split("\n")[4].strip() for mutant in mutants_of("m.py", source)]
    assert made == ["if False:", "if not b:", "if a:"]
    assert {mutant.function for mutant in mutants_of("m.py", source)} == {"C.f"}


def test_a_check_keeps_its_key_when_lines_move():
    source = "def f():\n    if a: raise E\n    if a: raise E\n"
    before, after = mutants_of("m.py", source), mutants_of("m.py", f"# more\n\n{source}")
    assert [mutant.key for mutant in before] == [mutant.key for mutant in after]
    assert len({mutant.key for mutant in before}) == 2
    assert [mutant.line + 2 for mutant in before] == [mutant.line for mutant in after]
