"""The policy: read strictly or refused in one sentence; what may never be let through by a patch of its own."""

import hashlib
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.core import policy
from endmark.core.evidence import Level
from endmark.core.policy import PolicyRefused
from endmark.core.weaknesses import KINDS, weaknesses
from endmark.wires import names

EXAMPLE = Path(__file__).parents[2] / "examples" / "endmark.toml"
BRANCH = '[branches.main]\npolicy = "gate-1"\nreviewers = ["a"]\n'
MODEL = '[reviewers.a]\nkind = "openai"\nmodel = "m-1"\ncapacity = "dedicated"\n'
COMMAND = '[reviewers.a]\nkind = "command"\ncommand = ["review"]\ncapacity = "dedicated"\n'


def read(text):
    return policy.read(text.encode() if isinstance(text, str) else text)


def test_the_example():
    raw = EXAMPLE.read_bytes()
    found = policy.read(raw)
    assert found.sha256 == hashlib.sha256(raw).hexdigest()
    branch = found.branch("refs/heads/main")
    assert (branch.policy, branch.reviewers, branch.level) == ("gate-2026-07", ("tests",), Level.SEALED)
    assert [reviewer.kind for reviewer in found.reviewers_of(branch)] == ["command"]
    assert [weakness.number for weakness in weaknesses(found)] == [3, 16]


def test_what_is_not_said_has_the_strict_default():
    found = read(BRANCH + MODEL)
    branch = found.branch("main")
    assert (branch.retries, branch.carry, branch.min_evidence, branch.always_person) == (2, "none", "sealed", ())
    assert branch.idle_seconds <= branch.total_seconds
    reviewer = found.reviewers["a"]
    assert (policy.wire_of(reviewer), policy.url_of(reviewer), reviewer.marks) == (
        "openai-chat",
        "https://api.openai.com/v1",
        True,
    )
    assert policy.wire_of(read(BRANCH + COMMAND).reviewers["a"]) is None
    with pytest.raises(PolicyRefused, match="no rules for the branch"):
        found.branch("refs/heads/other")


def test_every_wire_it_names_exists():
    assert {wire for wires in policy.WIRES.values() for wire in wires} <= set(names.NAMES)


REFUSED = {
    "no such advisor": (BRANCH + 'advisors = ["z"]\n' + MODEL, "wrong-value", "no such"),
    "an advisor twice": (BRANCH + 'advisors = ["z", "z"]\n' + MODEL, "wrong-value", "twice"),
    "an advisor who decides": (BRANCH + 'advisors = ["a"]\n' + MODEL, "wrong-value", "decides already"),
    "a key that is no id": (BRANCH + COMMAND + 'signed_by = "gate.key.pub"\n', "wrong-value", "64 lower-case hex"),
    "nothing": ("", "missing-key", "asks for nothing"),
    "no branch": (MODEL, "missing-key", "asks for nothing"),
    "nobody is asked": (BRANCH.replace('["a"]', "[]") + MODEL, "wrong-value", "asks for nothing"),
    "nobody is named": ('[branches.main]\npolicy = "p"\n', "missing-key", "reviewers"),
    "nobody of that name": (BRANCH, "wrong-value", "no such"),
    "one twice": (BRANCH.replace('["a"]', '["a","a"]') + MODEL, "wrong-value", "twice"),
    "no version": (BRANCH.replace("policy", "#") + MODEL, "missing-key", "policy"),
    "an empty version": (BRANCH.replace("gate-1", "") + MODEL, "wrong-value", "policy"),
    "a date as version": (BRANCH.replace('"gate-1"', "2026-07-01") + MODEL, "wrong-type", "date"),
    "unknown key of a branch": (
        BRANCH + "retrys = 1\n" + MODEL,
        "unknown-key",
        "retrys.*allowed are policy, reviewers",
    ),
    "unknown key of a reviewer": (BRANCH + MODEL + "temprature = 0\n", "unknown-key", "temprature.*allowed are kind"),
    "a name as key": (BRANCH + 'name = "x"\n' + MODEL, "unknown-key", "name"),
    "unknown table": (BRANCH + MODEL + "[branch.x]\n", "unknown-key", "branch.*branches, reviewers"),
    "capacity unsaid": (BRANCH + MODEL.replace("capacity", "#"), "missing-key", "capacity"),
    "a flag as number": (BRANCH + "retries = true\n" + MODEL, "wrong-type", "bool"),
    "a string as number": (BRANCH + 'retries = "2"\n' + MODEL, "wrong-type", "retries"),
    "less than none": (BRANCH + "retries = -1\n" + MODEL, "wrong-type", "retries"),
    "no bytes": (BRANCH + "max_diff_bytes = 0\n" + MODEL, "wrong-type", "max_diff_bytes"),
    "no time": (BRANCH + "total_seconds = 0\n" + MODEL, "wrong-type", "total_seconds"),
    "nan": (BRANCH + "total_seconds = nan\n" + MODEL, "wrong-type", "total_seconds"),
    "infinity": (BRANCH + "idle_seconds = inf\n" + MODEL, "wrong-type", "idle_seconds"),
    "idle above total": (BRANCH + "idle_seconds = 901\n" + MODEL, "wrong-value", "idle_seconds"),
    "a hot nan": (BRANCH + MODEL + "temperature = nan\n", "wrong-", "temperature"),
    "other carry": (BRANCH + 'carry = "all"\n' + MODEL, "wrong-type", "carry"),
    "other evidence": (BRANCH + 'min_evidence = "none"\n' + MODEL, "wrong-type", "min_evidence"),
    "a full ref": (BRANCH.replace("main", '"refs/heads/main"') + MODEL, "wrong-value", "short name"),
    "a list of tables": ("[[branches]]\n", "wrong-type", "branches"),
    "a value for a table": ("[branches]\nmain = 1\n", "wrong-type", "main"),
    "other kind": (BRANCH + MODEL.replace("openai", "other"), "wrong-type", "kind"),
    "a model unsaid": (BRANCH + MODEL.replace("model", "#"), "missing-key", "model"),
    "no tokens for one that needs them": (
        BRANCH + MODEL.replace("openai", "anthropic"),
        "missing-key",
        "max_output_tokens",
    ),
    "a command of a model": (BRANCH + MODEL + 'command = ["x"]\n', "unknown-key", "command"),
    "a url of a command": (BRANCH + COMMAND + 'url = "https://x"\n', "unknown-key", "url"),
    "no command": (BRANCH + COMMAND.replace('["review"]', "[]"), "missing-key", "command"),
    "the patch's own command": (BRANCH + COMMAND.replace('"review"', '"./review"'), "wrong-value", "patch's own"),
    "a command below": (BRANCH + COMMAND.replace('"review"', '"tools/review"'), "wrong-value", "patch's own"),
    "a command of another wire": (BRANCH + MODEL + 'wire = "anthropic"\n', "wrong-value", "wire"),
    "a key in the file": (BRANCH + MODEL + 'key = "sk-secret-123"\n', "wrong-value", "env:NAME"),
    "a key in the url": (BRANCH + MODEL + 'url = "https://u:sk-secret-123@x/v1"\n', "wrong-value", "url"),
    "a key in the query": (BRANCH + MODEL + 'url = "https://x/v1?key=sk-secret-123"\n', "wrong-value", "url"),
    "a file": (BRANCH + MODEL + 'url = "file:///etc/passwd"\n', "wrong-value", "url"),
    "a prompt outside": (BRANCH + MODEL + 'prompt = "../prompt.md"\n', "wrong-value", "prompt"),
    "a file outside": (BRANCH + COMMAND + 'files = ["/etc/passwd"]\n', "wrong-value", "files"),
    "a file of git": (BRANCH + COMMAND + 'files = [".git/config"]\n', "wrong-value", "files"),
    "a glob of nothing": (BRANCH + 'always_person = [""]\n' + MODEL, "wrong-value", "always_person"),
    "a glob of stars": (BRANCH + f'always_person = ["{"*a" * 9}"]\n' + MODEL, "wrong-value", "always_person"),
    "a key twice": (BRANCH + "retries = 1\nretries = 2\n" + MODEL, "wrong-type", "no TOML"),
    "no text": (b"\xff\xfe", "wrong-type", "no TOML"),
    "cut": (BRANCH + MODEL[:-3], "wrong-type", "no TOML"),
    "deep": ("a = " + "[" * 100_000, "wrong-type", "no TOML"),
    "large": ("#" * (policy.MOST_BYTES + 1), "over-cap", "cap"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_and_why(name):
    text, signal, says = REFUSED[name]
    with pytest.raises(PolicyRefused, match=says) as refused:
        read(text)
    assert refused.value.signal.startswith(signal)
    assert "secret" not in str(refused.value)
    assert refused.value.detail.isprintable()
    assert refused.value.detail.startswith("endmark.toml: ")
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)


@given(st.text() | st.binary())
def test_whatever_the_bytes_nothing_else_comes_out(raw):
    with pytest.raises(PolicyRefused):
        read(raw)


def test_no_cut_asks_for_less():
    """A cut policy is refused, or says what the whole one says of everything it still holds, and less of nothing."""
    whole = (BRANCH + 'always_person = ["db/**"]\n' + MODEL + "temperature = 0\n").encode()
    asked = policy.read(whole)
    for at in range(len(whole)):
        try:
            found = policy.read(whole[:at])
        except PolicyRefused:
            continue
        assert found.branches == asked.branches
        assert found.sha256 != asked.sha256 or whole[at:].strip() == b""


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        (".gitattributes", True),
        ("deep/er/.gitattributes", True),
        (".GitAttributes", True),
        (".gitmodules", True),
        ("endmark.toml", True),
        ("ENDMARK.TOML", True),
        ("tools/review.py", True),
        ("other/tools/review.py", False),
        ("prompts/strict.md", True),
        ("db/1.sql", True),
        ("db/deep/1.sql", True),
        ("xdb/1.sql", False),
        ("a/secrets", True),
        ("a/secrets/x", True),
        ("ci/build.yml", True),
        ("ci/deep/build.yml", False),
        ("README.md", False),
        ("gitattributes", False),
        (".gitattributes.txt", False),
    ],
)
def test_what_a_person_must_see(path, wanted):
    found = read(
        BRANCH.replace('["a"]', '["a", "b"]')
        + 'always_person = ["db/**", "secrets", "/ci/*.yml"]\n'
        + COMMAND
        + 'files = ["tools/review.py"]\n'
        + MODEL.replace("reviewers.a", "reviewers.b")
        + 'prompt = "prompts/strict.md"\n'
    )
    paths = [b"x.py", path.encode()]
    assert found.needs_person(found.branch("main"), paths) == ((path.encode(),) if wanted else ())


def test_the_fixed_ones_cannot_be_taken_away():
    found = read(BRANCH + "always_person = []\n" + MODEL)
    assert set(policy.ALWAYS_PERSON) <= set(found.always_person(found.branch("main")))
    strange = [b"\xff/.gitattributes", b"a\nb/.gitmodules"]
    assert found.needs_person(found.branch("main"), strange) == tuple(strange)


# --- weaknesses

SIGNED = f'signed_by = "{"a1" * 32}"\n'
SOUND = (
    BRANCH.replace('["a"]', '["a", "b"]')
    + 'author_models = ["w-1"]\n'
    + MODEL
    + "temperature = 0\nmax_output_tokens = 8000\n"
    + SIGNED
    + COMMAND.replace("reviewers.a", "reviewers.b")
    + SIGNED
)


def test_a_sound_policy_has_none():
    assert weaknesses(read(SOUND)) == []
    shared = COMMAND.replace("reviewers.a", "reviewers.lint").replace("dedicated", "shared")
    advised = read(SOUND.replace("author_models", 'advisors = ["lint"]\nauthor_models') + shared)
    assert weaknesses(advised) == []
    assert [one.name for one in advised.advisors_of(advised.branch("main"))] == ["lint"]


WEAK = {
    1: SOUND.replace('"dedicated"', '"shared"', 1),
    2: (BRANCH + 'author_models = ["m-1"]\n' + MODEL + "temperature = 0\nmax_output_tokens = 8000\n" + SIGNED),
    3: SOUND.replace('["a", "b"]', '["b"]').replace("reviewers.a", "reviewers.c"),
    4: SOUND.replace("author_models", "retries = 4\nauthor_models"),
    5: SOUND.replace("temperature", "marks = false\ntemperature"),
    6: SOUND + "marks = false\n",
    7: SOUND.replace("author_models", 'min_evidence = "witness"\nauthor_models'),
    8: SOUND.replace("author_models", 'carry = "identical"\nauthor_models'),
    9: SOUND.replace("temperature = 0", "temperature = 0.1"),
    10: SOUND.replace("max_output_tokens = 8000", ""),
    11: SOUND.replace("temperature", 'url = "http://example.org/v1"\ntemperature'),
    12: SOUND.replace("m-1", "m-latest"),
    13: SOUND + SOUND[: SOUND.index("[reviewers")].replace("main", "next").replace("author", "retries = 1\nauthor"),
    14: SOUND.replace("author_models", "max_diff_bytes = 3_000_000\nauthor_models"),
    15: SOUND + MODEL.replace("reviewers.a", "reviewers.z"),
    16: SOUND.removesuffix(SIGNED),
    17: SOUND.removesuffix(SIGNED).replace("author_models", 'min_evidence = "signed"\nauthor_models'),
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.number)
def test_each_weakness_is_found(kind):
    found = {weakness.number: weakness for weakness in weaknesses(read(WEAK[kind.number]))}
    assert kind.number in found
    assert found[kind.number].forbids == kind.forbids
    assert found.keys() <= {kind.number, 15}, "one change, one weakness"


def test_one_reviewer_alone_speaks_for_no_other():
    """17 is of keys that sign for several."""
    signed = BRANCH + 'author_models = ["w-1"]\nmin_evidence = "signed"\n'
    alone = signed + MODEL + "temperature = 0\nmax_output_tokens = 8000\n"
    assert [weakness.number for weakness in weaknesses(read(alone))] == [3]


def test_a_machine_of_ones_own_may_be_asked_in_clear():
    for url in ("http://localhost:11434", "http://127.0.0.1:8000/v1", "http://[::1]:8000"):
        assert weaknesses(read(SOUND.replace("temperature", f'url = "{url}"\ntemperature'))) == []
    for url in ("http://localhost.example.org", "http://127.example.org", "http://127.0.0.1.example.org"):
        assert [
            weak.number for weak in weaknesses(read(SOUND.replace("temperature", f'url = "{url}"\ntemperature')))
        ] == [11]


def test_numbers_are_those_of_the_page():
    page = (Path(__file__).parents[2] / "docs" / "policy.md").read_text()
    for kind in KINDS:
        assert f"| {kind.number} | {kind.says} | {'yes' if kind.forbids else 'no'} | {kind.instead} |" in page
