"""Writes the vectors of decision records: `python tests/vectors/build_record.py [FOLDER]`.

Shares no code with endmark. The trusted key is that of the signature's vectors.
"""

import json
import sys
from pathlib import Path

from tests.vectors.build_signature import OURS, THEIRS, b64, public, sig

FOLDER = Path(__file__).parent / "record"
TYPE = "application/vnd.in-toto+json"
CASES: dict[str, bytes] = {}
CHANGE = {
    "diff_sha": "d" * 64,
    "object_format": "sha1",
    "target": "refs/heads/main",
    "base": "1" * 40,
    "head": "2" * 40,
    "merge_tree": "3" * 40,
}
REVIEW = {
    "attempt_id": "att-1",
    "reviewer": "deep",
    "kind": "anthropic",
    "model": "reviewer-5",
    "wire": "anthropic",
    "temperature": 0.0,
    "max_output_tokens": 16000,
    "capacity": "dedicated",
    "prompt_sha256": "a" * 64,
    "shown_sha256": "b" * 64,
    "verdict_sha256": "c" * 64,
    "verdict": "pass",
    "blocking": 0,
    "advisory": 1,
    "evidence": ["sealed", "marks-echoed"],
}
PREDICATE = {
    "decision": "pass",
    "change": CHANGE,
    "policy_version": "gate-1",
    "policy_sha256": "e" * 64,
    "reviews": [REVIEW],
    "evidence": [],
    "at": "2026-11-30T12:00:00.000000Z",
}


def subjects(change):
    return [
        {"name": "diff", "digest": {"sha256": change.get("diff_sha")}},
        {"name": "base", "digest": {"gitCommit": change.get("base")}},
        {"name": "head", "digest": {"gitCommit": change.get("head")}},
        {"name": "merge", "digest": {"gitTree": change.get("merge_tree")}},
    ]


def statement(predicate=None, /, **changes):
    predicate = PREDICATE if predicate is None else predicate
    made = {"_type": "https://in-toto.io/Statement/v1", "subject": subjects(predicate.get("change", CHANGE))}
    made |= {"predicateType": "https://endmark.dev/decision/v1", "predicate": predicate} | changes
    return json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode()


def signed(payload, key=OURS, kind=TYPE, signed_as=TYPE):
    made = {"payloadType": kind, "payload": b64(payload), "signatures": [sig(key, payload, signed_as)]}
    return json.dumps(made, separators=(",", ":")).encode()


def case(name, expect, raw, comment, rule):
    header = {"expect": expect, "comment": comment, "rule": rule, "received": len(raw), "trusted": public(OURS).hex()}
    CASES[name] = "".join(f"{key}: {value}\n" for key, value in header.items()).encode() + b"\n" + raw


def build():
    CASES.clear()

    def bad(name, signal, rule, predicate=None, /, **changes):
        case(name, signal, signed(statement(predicate, **changes)), name.replace("_", " "), rule)

    def changed(**changes):
        return PREDICATE | {"change": CHANGE | changes}

    def reviewed(*reviews, **changes):
        return PREDICATE | {"reviews": [REVIEW | one for one in reviews]} | changes

    failed = {"verdict": "fail", "blocking": 2, "attempt_id": "att-2"}
    long = {"object_format": "sha256", "base": "1" * 64, "head": "2" * 64, "merge_tree": "3" * 64}
    case("pass", "pass", signed(statement()), "a pass", "R2")
    case("fail", "fail", signed(statement(reviewed({}, failed, decision="fail"))), "one fail outweighs a pass", "R7")
    case("sha256", "pass", signed(statement(changed(**long))), "a repository of SHA-256", "R5")
    case("unicode", "pass", signed(statement(changed(target="refs/heads/größe"))), "a ref in UTF-8", "R2")

    unknown = {"prompt_sha256": None, "shown_sha256": None, "advisory": 0}
    case("little_known", "pass", signed(statement(reviewed(unknown))), "what was shown is not known", "R5")

    case("mc1_type", "wrong-value", signed(statement(), kind="application/vnd.endmark.mc1"), "another type", "R1")
    shifted = signed(statement(), signed_as="application/vnd.endmark.mc1")
    case("signed_as_mc1", "envelope-digest", shifted, "signed under the type of an envelope", "R1")
    case("unknown_signer", "weak-evidence", signed(statement(), THEIRS), "signed by a key nobody trusts", "R1")
    case("cut_before_signing", "not-json", signed(statement()[:-1]), "what was signed had been cut", "R1")

    case("spaced", "wrong-value", signed(statement().replace(b",", b", ")), "white space", "R2")
    case("line_end", "wrong-value", signed(statement() + b"\n"), "a line end after it", "R2")
    order = PREDICATE | {"change": dict(reversed(CHANGE.items()))}
    bad("another_order", "wrong-value", "R2", order)
    bad("extra_key", "wrong-value", "R2", note="x")
    bad("integer_for_a_number", "wrong-value", "R2", reviewed({"temperature": 0}))

    bad("another_statement", "wrong-value", "R3", _type="https://in-toto.io/Statement/v0.1")
    bad("another_predicate", "wrong-value", "R3", predicateType="https://slsa.dev/provenance/v1")
    bad("another_subject", "wrong-value", "R3", subject=subjects(CHANGE | {"diff_sha": "f" * 64}))
    bad("a_subject_more", "wrong-value", "R3", subject=[*subjects(CHANGE), subjects(CHANGE)[0]])
    bad("no_subject", "wrong-value", "R3", subject=[])

    bad("no_predicate", "wrong-type", "R4", predicate=None)
    bad("unknown_key", "wrong-type", "R4", PREDICATE | {"approved": True})
    bad("missing_key", "wrong-type", "R4", {key: value for key, value in PREDICATE.items() if key != "policy_sha256"})
    bad("incomplete", "wrong-type", "R4", PREDICATE | {"decision": "incomplete"})
    bad("decision_in_capitals", "wrong-type", "R4", PREDICATE | {"decision": "PASS"})
    bad("count_as_string", "wrong-type", "R4", reviewed({"blocking": "0"}))
    bad("unknown_key_of_a_review", "wrong-type", "R4", reviewed({"note": ""}))

    bad("short_diff_sha", "wrong-value", "R5", changed(diff_sha="d" * 63))
    bad("diff_sha_in_capitals", "wrong-value", "R5", changed(diff_sha="D" * 64))
    bad("policy_in_capitals", "wrong-value", "R5", PREDICATE | {"policy_sha256": "A" * 64})
    bad("short_commit", "wrong-value", "R5", changed(base="1" * 12))
    bad("commit_of_another_format", "wrong-value", "R5", changed(head="2" * 64))
    bad("short_ref", "wrong-value", "R5", changed(target="main"))
    bad("local_time", "wrong-value", "R5", PREDICATE | {"at": "2026-11-30T12:00:00+01:00"})
    bad("no_digest_of_the_verdict", "wrong-value", "R5", reviewed({"verdict_sha256": ""}))

    bad("no_reviews", "wrong-value", "R6", PREDICATE | {"reviews": []})
    bad("no_policy", "wrong-value", "R6", PREDICATE | {"policy_version": ""})
    bad("one_attempt_twice", "wrong-value", "R6", reviewed({}, {}))

    bad("pass_over_a_fail", "contradiction", "R7", reviewed({}, failed))
    bad("fail_of_nobody", "contradiction", "R7", PREDICATE | {"decision": "fail"})
    bad("pass_with_blocking", "contradiction", "R7", reviewed({"blocking": 1}))
    bad("fewer_than_none", "contradiction", "R7", reviewed({"advisory": -1}))
    bad("fewer_blocking_than_none", "contradiction", "R7", reviewed({}, failed | {"blocking": -1}, decision="fail"))
    return CASES


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in build().items():
        (folder / name).write_bytes(content)
