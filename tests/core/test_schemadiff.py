"""What changed between two listings: nothing for equal ones, everything once, and the way back mirrored."""

from hypothesis import given
from hypothesis import strategies as st

from endmark.core.schemadiff import LINE_MAX, Item, What, capped, diff, lines

NAMES = st.sampled_from(["a", "b", "c"])
ITEMS = st.lists(
    st.builds(
        Item,
        st.sampled_from(["table", "index", "view", "column"]),
        NAMES,
        st.lists(st.text(max_size=5), max_size=3).map(tuple),
        st.none() | NAMES,
    ),
    max_size=8,
)
MIRROR = {What.ADDED: What.DROPPED, What.DROPPED: What.ADDED, What.CHANGED: What.CHANGED}


@given(ITEMS)
def test_equal_listings_differ_in_nothing(items):
    assert diff(items, list(items)) == ()


@given(ITEMS, ITEMS)
def test_the_way_back_is_the_mirror(before, after):
    forth, back = diff(before, after), diff(after, before)
    assert [(MIRROR[change.what], change.kind, change.name) for change in forth] == [
        (change.what, change.kind, change.name) for change in back
    ]


def test_the_line_that_changed_is_shown_and_no_other():
    before = [Item("view", "v", ("SELECT a,", "b", "FROM t"))]
    after = [Item("view", "v", ("SELECT a,", "c", "FROM t"))]
    assert lines(diff(before, after)) == ["~ view v", "    - b", "    + c"]


def test_a_new_table_brings_its_columns_and_an_old_one_is_told_of_each():
    column = Item("column", "t.x", ("integer",), "t")
    assert lines(diff([], [Item("table", "t"), column])) == ["+ table t", "    + x integer"]
    assert lines(diff([Item("table", "t")], [Item("table", "t"), column])) == ["+ column t.x", "    + integer"]


def test_long_lines_and_long_lists_are_cut_and_say_so():
    (_head, line) = lines(diff([], [Item("view", "v", ("x" * 2_000,))]))
    assert len(line) < LINE_MAX + 60
    assert "1,702 characters more" in line
    assert capped([str(n) for n in range(10)], 4) == ["0", "1", "2", "... and 7 lines more"]
    assert capped(["a"], 4) == ["a"]
