"""What the checks of a module are, and each of them weakened: found in its syntax tree, one edit a mutant."""

import ast
import hashlib
import re
from collections.abc import Iterator
from typing import NamedTuple

# A call of one of these at the end of a condition's block refuses, or notes a finding; one of those is a check itself.
_LEAVES = re.compile(r"_*(refuse|reject|fail|deny|abort|stop|note|append|add)(_|\Z)|.*_refused\Z")
_FAULTS = re.compile(r"_*(fault|refused)\Z")  # what is kept in a name like this is a refusal, too
_GUARDS = re.compile(
    r"_*(check|require|need|refuse|reject|guard|ensure|verify|must|prove|forbid|confirm|validate|still|deny)"
)

_MOVED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_HOLDS = (ast.Eq, ast.In, ast.Is)


class Mutant(NamedTuple):
    """One weakened check of a module.

    `path` is relative to the project; lines `line` to `end` are where the check stands; `node` numbers the node to be
    exchanged in the order of `ast.walk`; `change` and `key` say what was done without a line number.
    """

    path: str
    function: str
    line: int
    end: int
    node: int
    replacement: str
    change: str
    key: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.function}: {self.change}"


class _Edit(NamedTuple):
    where: ast.stmt | ast.expr  # what a test must reach
    node: ast.AST
    replacement: str  # Python text
    change: str


def mutants_of(path: str, source: str) -> list[Mutant]:
    """Every check of the module at `path`, weakened in each of the ways that apply to it; in the order of lines."""
    tree = ast.parse(source)
    numbers = {id(node): number for number, node in enumerate(ast.walk(tree))}
    found: list[Mutant] = []
    seen: dict[str, int] = {}
    for function, name in _functions(tree):
        for edit in _edits(function):
            identity = f"{path}\0{name}\0{edit.change}"
            seen[identity] = again = seen.get(identity, 0) + 1
            key = hashlib.sha256(f"{identity}\0{again}".encode()).hexdigest()[:16]
            line, end = edit.where.lineno, edit.where.end_lineno or edit.where.lineno
            number = numbers[id(edit.node)]
            found.append(Mutant(path, name, line, end, number, edit.replacement, edit.change, key))
    return sorted(found, key=lambda mutant: (mutant.line, mutant.node))


def mutated(source: str, mutant: Mutant) -> ast.Module:
    """The syntax tree of `source` with the one node exchanged; every line keeps its number."""
    tree = ast.parse(source)
    target = next(node for number, node in enumerate(ast.walk(tree)) if number == mutant.node)
    statement = ast.parse(mutant.replacement).body[0]
    new = statement.value if isinstance(target, ast.expr) and isinstance(statement, ast.Expr) else statement

    class Exchange(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            if node is not target:
                return self.generic_visit(node)
            for part in ast.walk(new):
                ast.copy_location(part, node)
            return new

    Exchange().visit(tree)
    return ast.fix_missing_locations(tree)


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    """Outermost functions first; a nested one belongs to the one around it, which is compiled as a whole."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node, prefix + node.name
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")
        else:
            yield from _functions(node, prefix)


def _edits(function: ast.AST) -> Iterator[_Edit]:
    covered: set[int] = set()  # refusals that go with the condition above them
    for node in ast.walk(function):
        if isinstance(node, ast.If) and _leaves(node.body):
            covered.add(id(node.body[-1]))
            yield _Edit(node.test, node.test, "False", f"`if {_text(node.test)}` never holds")
            yield from _weaker(node.test, node.test)
        elif isinstance(node, ast.Return | ast.Assign) and node.value is not None and _decides(node.value):
            if isinstance(node, ast.Return):
                for value in ("True", "False"):
                    yield _Edit(node, node.value, value, f"`return {_text(node.value)}` is always {value}")
            yield from _weaker(node.value, node)
        elif isinstance(node, ast.ExceptHandler):
            for statement in node.body:
                if isinstance(statement, ast.Raise):
                    yield _Edit(statement, statement, "pass", f"`{_text(statement)}` is left out")
        elif isinstance(node, ast.Expr) and id(node) not in covered and _GUARDS.match(_called(node.value)):
            yield _Edit(node, node, "pass", f"`{_text(node)}` is left out")
            for argument in node.value.args if isinstance(node.value, ast.Call) else []:
                if _decides(argument):
                    yield from _weaker(argument, node)


def _weaker(expression: ast.expr, where: ast.stmt | ast.expr) -> Iterator[_Edit]:
    """Operands left out, bounds moved by one, and in a comprehension's element a comparison taken as held."""
    inside: set[int] = set()
    for node in ast.walk(expression):
        if isinstance(node, ast.GeneratorExp | ast.ListComp | ast.SetComp):
            inside.update(id(part) for part in ast.walk(node))
        if isinstance(node, ast.BoolOp):
            for at, operand in enumerate(node.values):
                rest = [value for value in node.values if value is not operand]
                less = rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
                yield _Edit(where, node, f"({_text(less)})", f"operand {at + 1} of `{_text(node)}` is left out")
        elif isinstance(node, ast.Compare):
            for at, operator in enumerate(node.ops):
                if type(operator) in _MOVED:
                    moved = ast.Compare(node.left, [*node.ops], node.comparators)
                    moved.ops[at] = _MOVED[type(operator)]()
                    yield _Edit(where, node, f"({_text(moved)})", f"`{_text(node)}` becomes `{_text(moved)}`")
            if id(node) in inside and len(node.ops) == 1:
                held = str(isinstance(node.ops[0], _HOLDS))
                yield _Edit(where, node, held, f"`{_text(node)}` inside `{_text(expression)}` is taken as {held}")


def _leaves(body: list[ast.stmt]) -> bool:
    """Whether a block ends in leaving the function, in handing a finding out, or in keeping it."""
    last = body[-1]
    if isinstance(last, ast.Raise | ast.Return):
        return True
    if isinstance(last, ast.Assign):
        return bool(_FAULTS.match(ast.unparse(last.targets[0]).rpartition(".")[2]))
    return isinstance(last, ast.Expr) and (
        isinstance(last.value, ast.Yield) or bool(_LEAVES.match(_called(last.value)))
    )


def _decides(value: ast.expr) -> bool:
    """Whether an expression says yes or no; `a or default` does not."""
    if isinstance(value, ast.BoolOp):
        return any(map(_decides, value.values))
    if isinstance(value, ast.Call):
        return _called(value) in {"all", "any"}
    return isinstance(value, ast.Compare) or (isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not))


def _called(node: ast.expr) -> str:
    """The last name of what a call calls: `refuse` of `where.refuse(...)`."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _text(node: ast.AST) -> str:
    """Python text; of a statement, which is only shown and never compiled again, the beginning."""
    text = ast.unparse(node)
    return " ".join(text.split())[:110] if isinstance(node, ast.stmt) else text
