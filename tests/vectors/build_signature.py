"""Writes the vectors of signed envelopes: `python tests/vectors/build_signature.py [FOLDER]`.

Shares no code with endmark. The trusted key of every vector is the one of spec/signature.md, whose private bytes are
00 01 02 ... 1f.
"""

import base64
import hashlib
import json
import sys
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FOLDER = Path(__file__).parent / "signature"
TYPE = "application/vnd.endmark.mc1"
OURS = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
THEIRS = Ed25519PrivateKey.from_private_bytes(bytes(range(32, 64)))
CASES: dict[str, bytes] = {}


def public(key):
    return key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def keyid(key):
    return hashlib.sha256(public(key)).hexdigest()


def b64(raw):
    return base64.b64encode(raw).decode()


def mc1(text):
    body = text + b"\nEND\n"
    return b"MC1 %d %s\n%s" % (len(body), hashlib.sha256(body).hexdigest().encode(), body)


def pae(payload, kind=TYPE):
    kind = kind.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def sig(key, payload, kind=TYPE, named=None):
    return {"keyid": named or keyid(key), "sig": b64(key.sign(pae(payload, kind)))}


def signed(payload, signatures=None, /, **changes):
    made = {"payloadType": TYPE, "payload": b64(payload)}
    made["signatures"] = [sig(OURS, payload)] if signatures is None else signatures
    made |= changes
    return json.dumps({key: value for key, value in made.items() if value is not None}, separators=(",", ":")).encode()


def case(name, expect, raw, comment, rule):
    header = {"expect": expect, "comment": comment, "rule": rule, "received": len(raw), "trusted": public(OURS).hex()}
    CASES[name] = "".join(f"{key}: {value}\n" for key, value in header.items()).encode() + b"\n" + raw


def build():
    CASES.clear()
    body = mc1(b'{"a":1}')
    statements = ["CREATE TABLE t (id INTEGER)", "INSERT INTO t VALUES (1)"]
    digest = hashlib.sha256("\n".join(statements).encode()).hexdigest()
    document = {"tool": "apply_schema", "job_id": "job_1", "stmt_count": 2, "sha256": digest}
    plan = mc1(json.dumps(document | {"statements": statements, "trailer": "END_APPLY"}).encode())
    verdict = mc1(json.dumps({"verdict": "pass", "diff_sha": "d" * 64, "policy_version": "1"}).encode())
    ours, theirs = sig(OURS, body), sig(THEIRS, body)
    whole = {"payloadType": TYPE, "payload": b64(body), "signatures": [ours]}

    case("body", "body", signed(body), "the example of the page", "D7")
    case("plan", "plan", signed(plan), "a signed plan", "D8")
    case("verdict", "verdict", signed(verdict), "a signed verdict", "D8")
    case("two_signatures", "body", signed(body, [theirs, ours]), "one of two keys is trusted", "D6")
    spaced = json.dumps(whole, indent=1).encode()
    case("spaced", "body", spaced, "other white space; what is signed is not the JSON", "D3")
    order = json.dumps(dict(reversed(whole.items())), separators=(",", ":")).encode()
    case("another_order", "body", order, "the same keys in another order", "D1")

    case("unknown_key", "unknown-key", signed(body, alg="EdDSA"), "an algorithm is named; nothing may choose it", "D1")
    case("no_payload", "missing-key", signed(body, payload=None), "no payload", "D1")
    case("duplicate_key", "duplicate-key", signed(body)[:-1] + b',"payload":"AAAA"}', "payload stands twice", "D1")
    for name, kind in (
        ("in_toto", "application/vnd.in-toto+json"),
        ("case", TYPE.upper()),
        ("json", "application/json"),
    ):
        raw = signed(body, [sig(OURS, body, kind)], payloadType=kind)
        case(f"type_{name}", "wrong-value", raw, f"well signed, as {kind}", "D2")
    case("type_number", "wrong-value", signed(body, payloadType=1), "the type is no string", "D2")
    case(
        "signed_json",
        "envelope-digest",
        signed(body, [{"keyid": keyid(OURS), "sig": b64(OURS.sign(body))}]),
        "the payload alone is signed, without its type",
        "D3",
    )
    shifted = {"keyid": keyid(OURS), "sig": b64(OURS.sign(pae(body, "application/json")))}
    case("signed_as_json", "envelope-digest", signed(body, [shifted]), "signed under another type than it says", "D3")

    case(
        "payload_url_safe",
        "wrong-value",
        signed(body, payload=b64(body + b"\xfb\xff").replace("+", "-").replace("/", "_")),
        "the other alphabet",
        "D4",
    )
    case(
        "payload_no_padding",
        "wrong-value",
        signed(body + b"x", payload=b64(body + b"x").rstrip("=")),
        "no padding",
        "D4",
    )
    case(
        "payload_line_break",
        "wrong-value",
        signed(body, payload=b64(body)[:76] + "\n" + b64(body)[76:]),
        "a line break",
        "D4",
    )
    loose = b64(body + b"x")
    case(
        "payload_loose_bits",
        "wrong-value",
        signed(body, payload=loose[:-3] + chr(ord(loose[-3]) + 1) + "=="),
        "unused bits that are not zero: another spelling of the same bytes",
        "D4",
    )
    case("payload_number", "wrong-value", signed(body, payload=7), "the payload is no string", "D4")

    case("no_signatures", "wrong-value", signed(body, []), "an empty list", "D5")
    case("many_signatures", "wrong-value", signed(body, [ours] * 17), "17 signatures", "D5")
    case("signatures_object", "wrong-value", signed(body, ours), "an object, not a list", "D5")
    case("signature_string", "wrong-type", signed(body, ["x"]), "a signature that is a string", "D5")
    case("signature_more", "unknown-key", signed(body, [ours | {"cert": ""}]), "a key too many in a signature", "D5")
    case("signature_no_keyid", "missing-key", signed(body, [{"sig": ours["sig"]}]), "no keyid", "D5")
    case("signature_63_bytes", "wrong-value", signed(body, [ours | {"sig": b64(bytes(63))}]), "63 bytes", "D5")
    case(
        "signature_loose",
        "wrong-value",
        signed(body, [ours | {"sig": ours["sig"][:-3] + "B=="}]),
        "unused bits that are not zero",
        "D5",
    )

    case("unknown_signer", "weak-evidence", signed(body, [theirs]), "signed by a key nobody trusts", "D6")
    case(
        "borrowed_id",
        "envelope-digest",
        signed(body, [sig(THEIRS, body, named=keyid(OURS))]),
        "another key under the id of a trusted one",
        "D6",
    )
    case(
        "id_upper_case",
        "weak-evidence",
        signed(body, [ours | {"keyid": ours["keyid"].upper()}]),
        "the id in upper case names no key",
        "D6",
    )
    case("altered_payload", "envelope-digest", signed(mc1(b'{"a":2}'), [ours]), "the payload is another envelope", "D6")
    case(
        "one_of_two_broken",
        "envelope-digest",
        signed(body, [ours, ours | {"sig": b64(bytes(64))}]),
        "a trusted key's second signature does not fit",
        "D6",
    )
    case("zero_signature", "envelope-digest", signed(body, [ours | {"sig": b64(bytes(64))}]), "64 zero bytes", "D6")

    case("bare_plan", "no-envelope", signed(plan.split(b"\n", 1)[1][: -len(b"\nEND\n")]), "a bare plan is signed", "D8")
    case("signed_twice", "no-envelope", signed(signed(body)), "a signed envelope is signed once more", "D8")
    case("cut_before_signing", "body-cut", signed(body[:-1]), "what was signed had been cut", "D8")
    case("bytes_after", "bytes-after-end", signed(body + b"\n"), "a byte follows the envelope", "D8")
    return CASES


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in build().items():
        (folder / name).write_bytes(content)
