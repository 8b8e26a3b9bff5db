"""The reviewer that users start from."""

from pathlib import Path

import pytest

EXAMPLE = (Path(__file__).parents[3] / "examples" / "review.py").read_bytes()


@pytest.mark.parametrize(("forbidden", "state"), [(b"DROP TABLE", "pass"), (b"changed", "fail")])
def test_the_example_reviewer_gives_a_verdict(make_world, forbidden, state):
    """`changed` is what the change adds."""
    world = make_world(files={"tools/review.py": EXAMPLE.replace(b"DROP TABLE", forbidden)})
    said = world.review()
    assert (said.state, len(said.reviews)) == (state, 1)
    assert world.merge().state == ("merged" if state == "pass" else "fail")
