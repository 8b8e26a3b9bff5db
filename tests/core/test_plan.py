"""Plans: what is sealed comes back, what is mutated does not, and no order of keys lets a cut body through."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core import payloads, reader
from tests.core.payloads import document, dump, witness

from endmark.core import plan, proof, strictjson
from endmark.core.evidence import Level
from endmark.core.plan import Plan, says_nothing
from endmark.core.proof import Form
from endmark.core.refusal import Refused

IDS = st.from_regex(r"[A-Za-z0-9._:-]{1,128}", fullmatch=True)
SQL = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=30).filter(
    lambda statement: not says_nothing(statement)
)
STATEMENTS = st.lists(SQL, min_size=1, max_size=6)
EVERY_KEY = {"after": ["job_0"], "retry_of": "job_00", "base": "0" * 64, "down": payloads.THREE}


@st.composite
def plans(draw):
    statements = draw(STATEMENTS)
    job_id, *others = draw(st.lists(IDS, min_size=4, max_size=4, unique=True))
    return Plan(
        job_id=job_id,
        statements=statements,
        sha256=plan.digest(statements),
        down=draw(st.none() | st.lists(SQL, min_size=len(statements), max_size=len(statements))),
        after=draw(st.just([]) | st.just(others[:2])),
        retry_of=draw(st.none() | st.just(others[2])),
        base=draw(st.none() | st.just("0f" * 32)),
    )


@given(plans())
def test_what_is_sealed_comes_back(made):
    raw = plan.seal(made)
    assert plan.seal(made) == raw
    proven = proof.prove(raw)
    assert (proven.form, proven.level, proven.value) == (Form.PLAN, Level.SEALED, made)
    assert proof.seal(raw.partition(b"\n")[2].removesuffix(b"\nEND\n")) == raw


@given(plans())
def test_a_witness_seals_to_the_plan_it_says(made):
    """W6: the values unchanged, whatever spelling and order of keys the model chose."""
    said = {"stmt_count": made.stmt_count, "job_id": made.job_id, "statements": made.statements}
    said |= {key: getattr(made, key) for key in ("after", "retry_of", "base", "down") if getattr(made, key)}
    said["trailer"] = "END_APPLY"
    for raw in (dump(said), dump(said, ensure_ascii=True, indent=1), dump(said, separators=(",", ":"))):
        assert proof.prove(raw).value == made
        assert proof.seal(raw) == plan.seal(made)


@given(plans())
def test_a_bare_plan_seals_as_it_stands(made):
    text = plan.seal(made).partition(b"\n")[2].removesuffix(b"\nEND\n")
    assert proof.prove(text).value == made
    assert proof.seal(text) == plan.seal(made)


def test_a_plan_is_sealed_once():
    with pytest.raises(Refused, match="envelope already"):
        proof.seal(payloads.envelope(dump(document())))


def test_digests_of_large_plans_are_taken_in_pieces():
    for statements in (
        ["SELECT '" + "é😀a" * 100_000 + "'"],
        [f"SELECT {n}" for n in range(1000)],
        ["x" * 300, "é" * 70_000] * 200,
    ):
        assert plan.digest(statements) == payloads.digest(statements)


# --- witness orders


def closings(cut: str) -> set[str]:
    """What a repairer may add to close a cut text, and a few things it should not."""
    text = reader.Text(cut.encode())
    stack, in_string, at = [], False, 0
    while at < len(text.raw):
        byte = text.raw[at : at + 1]
        if in_string:
            if byte == b"\\":
                at += 1
            elif byte == b'"':
                in_string = False
        elif byte == b'"':
            in_string = True
        elif byte in b"[{":
            stack.append({b"[": "]", b"{": "}"}[byte])
        elif byte in b"]}":
            stack.pop()
        at += 1
    ends = "".join(reversed(stack))
    if in_string:
        return {f'"{ends}', f'":null{ends}', f'":1{ends}'}
    return {ends, f"null{ends}", f":null{ends}", f'""{ends}'}


@pytest.mark.parametrize("order", list(permutations(("job_id", "stmt_count", "statements", "trailer"))))
@pytest.mark.parametrize("more", [{}, EVERY_KEY], ids=["required", "every key"])
def test_no_order_of_keys_lets_a_cut_and_closed_body_through(order, more):
    """All 24 orders, cut at every character and closed: what is accepted, if anything, is what was whole."""
    made = witness(**more)
    text = dump({key: made[key] for key in (*more, *order)}).decode()
    whole = strictjson.loads(text.encode())
    accepted = 0
    for at in range(1, len(text)):
        cut = text[:at].rstrip().rstrip(",")
        for closing in closings(cut):
            raw = (cut + closing).encode()
            try:
                proven = proof.prove(raw)
            except Refused:
                continue
            assert proven.value == plan.read_witness(whole, 0), raw
            accepted += 1
    orderly = order[-1] == "trailer" and order.index("stmt_count") < order.index("statements")
    # Cut inside its last three characters `Y"}`, and closed, the trailer is whole again and so is everything before it.
    assert accepted == (2 if orderly else 0)


def test_only_three_of_24_orders_are_a_witness():
    good = [order for order in permutations(witness()) if is_whole(dump({key: witness()[key] for key in order}))]
    assert good == [
        ("job_id", "stmt_count", "statements", "trailer"),
        ("stmt_count", "job_id", "statements", "trailer"),
        ("stmt_count", "statements", "job_id", "trailer"),
    ]


def is_whole(raw: bytes) -> bool:
    try:
        proof.prove(raw)
    except Refused:
        return False
    return True


# --- mutations

OTHER_TYPES: list[object] = [None, True, False, 0, 1, 3, -1, 3.0, "", "3", "x", [], ["x"], {}, {"x": 1}, [[]], [None]]


@pytest.mark.parametrize("made", [document(), document(**EVERY_KEY)], ids=["required", "every key"])
def test_no_mutation_of_a_plan_is_let_through(made):
    """Drop a key, add a key, rename one, give one another type: each is refused, except what nothing but MC1 covers."""
    free = {"after", "retry_of", "base"}
    assert is_whole(dump(made))
    for key, value in made.items():
        without = {name: other for name, other in made.items() if name != key}
        assert is_whole(dump(without)) == (key in free), key
        for name in (key.upper(), key + " ", key[:-1], "\u200b" + key):
            assert not is_whole(dump(without | {name: value})), name
        for other in OTHER_TYPES:
            allowed = (key, other) in [("job_id", "3"), ("job_id", "x"), ("retry_of", "3"), ("retry_of", "x")]
            allowed = allowed or (key, other) == ("after", ["x"])
            same = other == value and type(other) is type(value)
            assert is_whole(dump(made | {key: other})) == (allowed or same), (key, other)
    for name in ("note", "", "verdict", "marks", "Tool", "statement", "__proto__"):
        for other in OTHER_TYPES:
            assert not is_whole(dump(made | {name: other})), (name, other)


@pytest.mark.parametrize("key", ["statements", "down"])
def test_no_mutation_of_statements_is_let_through(key):
    made = document(**EVERY_KEY)
    whole = made[key]
    for at, statement in enumerate(whole):
        for other in (
            [*whole[:at], *whole[at + 1 :]],
            [*whole[:at], statement, *whole[at:]],
            [*whole[:at], statement + " ", *whole[at + 1 :]],
            [*whole[:at], statement.upper() + "x", *whole[at + 1 :]],
            [*whole[:at], statement[:-1], *whole[at + 1 :]],
            [*whole[:at], *OTHER_TYPES[:1], *whole[at + 1 :]],
            [*whole[:at], [statement], *whole[at + 1 :]],
            whole[::-1],
        ):
            assert not is_whole(dump(made | {key: other}))
            assert not is_whole(dump(made | {key: other, "stmt_count": len(other)}))


@given(st.text(" \t\n\v\f\r;-/*x\u00a0", max_size=12))
def test_what_says_nothing(statement):
    """P9, against the plain reader; and the quick look that a list of statements gets never says otherwise."""
    assert says_nothing(statement) == reader.says_nothing(statement)
    made = document(["SELECT 1", statement])
    assert is_whole(dump(made)) == (not says_nothing(statement))
