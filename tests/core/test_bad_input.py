"""Bad input in words: what arrives, the signal, the state it ends in and the exit code. Nothing here reads a table."""

import json

import pytest
from tests.core.payloads import THREE, digest, document, dump, envelope, sha, witness

from endmark.core import decision, proof
from endmark.core.refusal import Refused

PLAN = dump(document())
TEXT = PLAN.decode()
WHOLE = envelope(PLAN)
HEADER, BODY = WHOLE.split(b"\n", 1)
ONE = dump(document(["SELECT 1"])).decode()


def spelled(count: str) -> bytes:
    return ONE.replace('"stmt_count": 1', f'"stmt_count": {count}').encode()


def statements(value) -> bytes:
    return dump(document() | {"statements": value, "stmt_count": len(value), "sha256": "0" * 64})


def with_key(raw: str) -> bytes:
    return (TEXT[:-1] + f", {raw}}}").encode()


TRUNCATED, REJECTED, QUARANTINED = ("truncated", 10), ("rejected", 12), ("quarantined", 11)

CASES = {
    # nothing, and headers
    "0 bytes": (b"", "empty", TRUNCATED),
    "one letter of the header": (b"M", "header-cut", TRUNCATED),
    "the header without its LF": (HEADER, "header-cut", TRUNCATED),
    "MC1 and zeros": (b"MC1 000000000000", "bad-header", REJECTED),
    "a length of 5,000 digits": (b"MC1 " + b"7" * 5_000 + b" " + b"0" * 64 + b"\n", "bad-header", REJECTED),
    "a header with CR LF": (HEADER + b"\r\n" + BODY, "bad-header", REJECTED),
    "a length of 10 GB": (b"MC1 9999999999 " + b"0" * 64 + b"\n", "over-cap", REJECTED),
    # envelopes
    "the header alone": (HEADER + b"\n", "body-cut", TRUNCATED),
    "the body without its last byte": (WHOLE[:-1], "body-cut", TRUNCATED),
    "no sentinel, length and digest made right": (
        b"MC1 %d %s\n%s" % (len(PLAN), sha(PLAN).encode(), PLAN),
        "no-sentinel",
        TRUNCATED,
    ),
    "bytes after the end": (WHOLE + b"\n", "bytes-after-end", REJECTED),
    "an envelope twice": (WHOLE + WHOLE, "bytes-after-end", REJECTED),
    "one letter of the body changed": (WHOLE.replace(b"customers", b"customerz", 1), "envelope-digest", QUARANTINED),
    # JSON that does not decode
    "a cut at the last byte": (PLAN[:-1], "not-json", TRUNCATED),
    "a byte order mark": (b"\xef\xbb\xbf" + PLAN, "not-json", TRUNCATED),
    "UTF-16": (TEXT.encode("utf-16"), "not-json", TRUNCATED),
    "invalid UTF-8": (PLAN.replace(b"customers", b"customer\xe9", 1), "not-json", TRUNCATED),
    "a raw NUL": (PLAN.replace(b"customers", b"customer\0", 1), "not-json", TRUNCATED),
    "a raw line end in a string": (PLAN.replace(b"customers", b"cus\ntomers", 1), "not-json", TRUNCATED),
    # JSON that is not strict
    "100,000 brackets": (b"[" * 100_000, "too-deep", REJECTED),
    "100,000 brackets in a plan": (PLAN[:-1] + b', "x": ' + b"[" * 100_000, "too-deep", REJECTED),
    "100,000 pairs of brackets": (b"[" * 100_000 + b"]" * 100_000, "too-deep", REJECTED),
    "100,000 objects": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "too-deep", REJECTED),
    "two documents": (PLAN + PLAN, "two-documents", REJECTED),
    "a plan and words": (PLAN + b"\nDone.", "two-documents", REJECTED),
    "a plan and a NUL": (PLAN + b"\0", "two-documents", REJECTED),
    "a list": (b"[" + PLAN + b"]", "not-an-object", REJECTED),
    "a key twice": (with_key('"trailer": "END_APPLY"'), "duplicate-key", REJECTED),
    "a key twice, once escaped": (with_key('"job_\\u0069d": "job_2"'), "duplicate-key", REJECTED),
    "NaN": (spelled("NaN"), "not-finite", REJECTED),
    "Infinity": (spelled("Infinity"), "not-finite", REJECTED),
    "1e999": (spelled("1e999"), "not-finite", REJECTED),
    "a number of 5,000 digits": (spelled("1" * 5_000), "integer-size", REJECTED),
    "a number one above 64 bits": (spelled(str(2**63)), "integer-size", REJECTED),
    "a lone surrogate": (ONE.replace("SELECT 1", "SELECT '\\ud800'").encode(), "lone-surrogate", REJECTED),
    # trailers and counts out of place
    "the digest right, the trailer gone": (
        dump({key: value for key, value in document().items() if key != "trailer"}),
        "no-trailer",
        TRUNCATED,
    ),
    "another trailer": (PLAN.replace(b"END_APPLY", b"END_APPLx"), "no-trailer", TRUNCATED),
    "a witness whose trailer is not last": (
        dump({"trailer": "END_APPLY"} | {"job_id": "j", "stmt_count": 3, "statements": THREE}),
        "trailer-not-last",
        TRUNCATED,
    ),
    "a witness whose count comes late": (
        dump({"statements": THREE, "stmt_count": 3, "job_id": "j", "trailer": "END_APPLY"}),
        "count-not-first",
        TRUNCATED,
    ),
    "an object that is no plan": (b'{"answer": 42}', "no-trailer", TRUNCATED),
    # plans that are wrong
    "a key that is not known": (with_key('"note": 1'), "unknown-key", REJECTED),
    "a key that is missing": (
        dump({key: value for key, value in document().items() if key != "job_id"}),
        "missing-key",
        REJECTED,
    ),
    "a count too small": (dump(document(stmt_count=2)), "wrong-count", REJECTED),
    "a count of true": (spelled("true"), "wrong-type", REJECTED),
    "a count of 1.0": (spelled("1.0"), "wrong-type", REJECTED),
    "a count of 1e0": (spelled("1e0"), "wrong-type", REJECTED),
    "a count in quotes": (spelled('"1"'), "wrong-type", REJECTED),
    "no statements": (statements([]), "wrong-value", REJECTED),
    "an empty statement": (statements([""]), "blank-statement", REJECTED),
    "a statement of white space": (statements(["SELECT 1", " \t\n"]), "blank-statement", REJECTED),
    "a statement of a comment": (statements(["-- COMMIT"]), "blank-statement", REJECTED),
    "a statement of an open comment": (statements(["/* SELECT 1"]), "blank-statement", REJECTED),
    "a statement that is a number": (statements(["SELECT 1", 2]), "wrong-type", REJECTED),
    "a statement that is null": (statements([None]), "wrong-type", REJECTED),
    "a statement that is a list": (statements([["SELECT 1"]]), "wrong-type", REJECTED),
    "an escaped NUL in a statement": (statements(["SELECT '\0'"]), "wrong-value", REJECTED),
    "an id with a space": (dump(document(job_id="job 1")), "bad-id", REJECTED),
    "a verdict without an envelope": (
        b'{"verdict": "pass", "diff_sha": "d", "policy_version": "1", "findings": []}',
        "no-envelope",
        REJECTED,
    ),
    "a pass with a blocking finding": (
        envelope(
            dump(
                {
                    "verdict": "pass",
                    "diff_sha": "d",
                    "policy_version": "1",
                    "findings": [{"severity": "blocking", "path": "a", "message": "m"}],
                }
            )
        ),
        "contradiction",
        REJECTED,
    ),
    "a witness in an envelope": (envelope(dump(witness())), "missing-key", REJECTED),
    # digests
    "a statement changed": (PLAN.replace(b"INDEX customers", b"INDEX customerz", 1), "statements-digest", QUARANTINED),
    "a digest over a newline at the end": (
        dump(document(sha256=sha("\n".join([*THREE, ""]).encode()))),
        "statements-digest",
        QUARANTINED,
    ),
    "a down changed": (dump(document(down=THREE, down_sha256=digest(THREE[:2]))), "down-digest", QUARANTINED),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input(case):
    raw, signal, (state, exit_code) = CASES[case]
    with pytest.raises(Refused) as refused:
        proof.prove(raw)
    row = decision.row_of(refused.value.signal)
    assert (refused.value.signal, row.state, row.exit_code) == (signal, state, exit_code)
    assert refused.value.received_bytes == len(raw)
    assert row.keeps_bytes == (state == "quarantined")
    assert refused.value.detail[:1].strip() == refused.value.detail[:1] != ""


def test_what_must_pass_does():
    for raw in (
        PLAN,
        WHOLE,
        PLAN + b" \r\n\t",
        json.dumps(document(), indent=4).encode(),
        dump(dict(reversed(document().items()))),
        json.dumps(document(["SELECT 'é😀\u2028'"])).encode(),
        dump(document(["SELECT '}]\"'"])),
        dump(witness()),
    ):
        proven = proof.prove(raw)
        assert proven.received_bytes == len(raw)
        assert proven.expected_bytes == (len(raw) if raw == WHOLE else None)


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (PLAN[:100], "the JSON ended early, after 100 bytes"),
        (envelope(PLAN[:100]), f"the JSON ended early, after {len(HEADER) + 1 + 100:,} bytes"),
        (b'{"a": x}', "the JSON is malformed at byte 6 (Expecting value)"),
        ('{"é": x}'.encode(), "the JSON is malformed at byte 7 (Expecting value)"),
        (b'{"a": "\xff"}', "the JSON is malformed at byte 7 (not UTF-8)"),
        (WHOLE[:300], f"received 300 of {len(WHOLE):,} bytes"),
        (WHOLE + b"xy", f"2 bytes follow the declared end at byte {len(WHOLE):,}"),
        (HEADER + b"\r\n", "the header ends in CR LF, one LF was expected"),
        (b"MC2 5 ", "the header begins with b'MC2 5 ', 'MC1 ' was expected"),
        (b"MC1 05 ", "the declared length '05' is not a decimal number"),
        (b"MC1 5 x", "the header is not 'MC1 length sha256' with single spaces"),
        (b"MC1\t5", "the header begins with b'MC1\\t5', 'MC1 ' was expected"),
        (spelled("true"), "stmt_count is true, an integer was expected"),
        (spelled("7"), "stmt_count says 7, 1 arrived"),
        (dump(document(job_id=[])), "job_id is a list, 1-128 of [A-Za-z0-9._:-] were expected"),
        (dump(document() | {"statements": {}}), "statements is an object, a list of strings was expected"),
        (dump(document(job_id="j" * 200)), 'job_id is "' + "j" * 36 + "..., 1-128 of"),
        (dump(document(job_id=None)), "job_id is null, 1-128 of [A-Za-z0-9._:-] were expected"),
        (dump(document(tool="\x1b[2J\x7fé")), "tool is \"\\u001b[2J\\u007f\\u00e9\", 'apply_schema' was expected"),
        (dump(document(sha256=sha("\n".join([*THREE, ""]).encode()))), "sha256 matches only with a newline added"),
    ],
)
def test_a_refusal_says_what_was_found(raw, says):
    with pytest.raises(Refused) as refused:
        proof.prove(raw)
    assert refused.value.detail.startswith(says)


def test_every_cut_says_that_it_ended_early():
    text = '{"a é😀":["\\u00e9\\n\\"\\ud83d\\ude00",true,false,null,-12,0.5,-1.5e+10,1E5,{"k":{}},[]],"b" :\t{"c":""}}'
    raw = text.encode()
    for at in range(1, len(raw)):
        with pytest.raises(Refused) as refused:
            proof.prove(raw[:at])
        assert refused.value.detail == f"the JSON ended early, after {at:,} bytes"
