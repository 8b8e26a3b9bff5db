"""What is concluded from two looks at the catalogs: a table of every kind of difference."""

import pytest

from endmark.effects.postgres import outcome
from endmark.effects.postgres.outcome import Became, Broken, Seen

CREATE, DROP, OTHER = "CREATE INDEX CONCURRENTLY", "DROP INDEX CONCURRENTLY", "VACUUM"
ONE, TWO = ("100", "aaaaaaaaaaaa"), ("200", "bbbbbbbbbbbb")
CHANGED = ("100", "cccccccccccc")
BAD = Broken("the index i is not valid", "index 300", "DROP INDEX CONCURRENTLY i")
NOTHING, WHOLE, PARTLY = Became


def seen(fingerprint, indexes, broken=(), rest="r1"):
    return Seen(fingerprint, rest, tuple(broken), frozenset(indexes))


WAS = seen("f1", [ONE])
WAS_BAD = seen("f1", [ONE], [BAD])
# kind, what was there, what is there -> what it is after silence, after success
CASES = {
    "nothing moved": (CREATE, WAS, WAS, NOTHING, WHOLE),
    "nothing moved, of another kind": (OTHER, WAS, WAS, NOTHING, WHOLE),
    "nothing moved, and one was broken before": (CREATE, WAS_BAD, WAS_BAD, NOTHING, NOTHING),
    "one more": (CREATE, WAS, seen("f2", [ONE, TWO]), WHOLE, WHOLE),
    "one more, beside one broken before": (CREATE, WAS_BAD, seen("f2", [ONE, TWO], [BAD]), WHOLE, WHOLE),
    "one more and a broken one": (CREATE, WAS, seen("f2", [ONE, TWO], [BAD]), PARTLY, WHOLE),
    "a broken one": (CREATE, WAS, seen("f2", [ONE], [BAD]), PARTLY, PARTLY),
    "two more": (CREATE, seen("f1", []), seen("f2", [ONE, TWO]), PARTLY, WHOLE),
    "one more and another changed": (CREATE, WAS, seen("f2", [CHANGED, TWO]), PARTLY, WHOLE),
    "one more and a table": (CREATE, WAS, seen("f2", [ONE, TWO], rest="r2"), PARTLY, WHOLE),
    "one more of a drop": (DROP, WAS, seen("f2", [ONE, TWO]), PARTLY, WHOLE),
    "one more of another kind": (OTHER, WAS, seen("f2", [ONE, TWO]), PARTLY, WHOLE),
    "one less": (DROP, WAS, seen("f2", []), WHOLE, WHOLE),
    "one less of a create": (CREATE, WAS, seen("f2", []), PARTLY, WHOLE),
    "one less and a table": (DROP, WAS, seen("f2", [], rest="r2"), PARTLY, WHOLE),
    "a broken one less": (DROP, WAS_BAD, seen("f2", [ONE]), WHOLE, WHOLE),
    "a broken one and a whole one less": (DROP, WAS_BAD, seen("f2", []), PARTLY, WHOLE),
    "half dropped": (DROP, WAS, seen("f2", [], [BAD]), PARTLY, PARTLY),
    "something else": (OTHER, WAS, seen("f2", [ONE], rest="r2"), PARTLY, WHOLE),
}


@pytest.mark.parametrize("name", CASES)
def test_what_became_of_it(name):
    kind, was, now, silence, success = CASES[name]
    before = outcome.read(outcome.write(was), was.fingerprint)
    assert outcome.after_silence(kind, before, now) is silence
    assert outcome.after_success(kind, before, now) is success
    nothing = (was.fingerprint, was.broken) == (now.fingerprint, now.broken)
    assert outcome.after_failure(before, now) is (NOTHING if nothing else PARTLY)


@pytest.mark.parametrize("text", ["", "r1", "r1\n", "r1\n\n\n"])
def test_a_record_that_is_cut_or_longer_is_not_read(text):
    with pytest.raises(ValueError, match="values to unpack"):
        outcome.read(text, "f1")


def test_all_that_is_broken_is_named_with_what_removes_it():
    other = Broken("the partition p is half detached", "partition 1", "ALTER TABLE t DETACH PARTITION p FINALIZE")
    before = outcome.read(outcome.write(WAS), "f1")
    said = outcome.words(before, seen("f2", [ONE], [BAD, other]))
    for part in (BAD.what, BAD.remedy, other.what, other.remedy):
        assert part in said
