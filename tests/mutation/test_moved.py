"""Reached lines follow an edit."""

import pytest
from tests.mutation.moved import blocks, moved

BEFORE = "a\nb\nc\nd\n"


def mask(*lines):
    return sum(1 << line for line in lines)


@pytest.mark.parametrize(
    ("after", "reached", "now"),
    [
        (BEFORE, (1, 3), (1, 3)),
        ("x\ny\n" + BEFORE, (2, 4), (4, 6)),
        ("x\n" + BEFORE, (1,), (1, 2)),  # what stands before a reached line may be reached
        ("a\nb\nd\n", (2, 3, 4), (2, 3)),
        ("a\nX\nY\nc\nd\n", (2,), (2, 3)),
        ("a\nX\nc\nd\n", (4,), (4,)),
        ("a\nb\nc\nd\ne\n", (4,), (4, 5)),
    ],
)
def test_where_lines_are_now(after, reached, now):
    assert moved(mask(*reached), blocks(BEFORE, after)) == mask(*now)
