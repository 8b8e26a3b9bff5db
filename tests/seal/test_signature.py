"""The signed form: its vectors, its keys, and that nothing which is not signed passes for it."""

import base64
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from hypothesis import given
from hypothesis import strategies as st
from tests.support import answers
from tests.support.world import make_database
from tests.vectors import build_signature

import endmark
from endmark.apply_gate import Options
from endmark.core import dsse, mc1, proof, strictjson
from endmark.core.evidence import Level
from endmark.core.refusal import CannotTry, Refused
from endmark.sources import keys

FOLDER = Path(build_signature.FOLDER)
KEYS = {"expect", "comment", "rule", "received", "trusted"}
ENVELOPE = mc1.seal(b'{"a":1}')


def load(path):
    head, _, raw = path.read_bytes().partition(b"\n\n")
    header = dict(line.split(": ", 1) for line in head.decode().split("\n"))
    assert set(header) == KEYS
    assert int(header["received"]) == len(raw)
    return header, raw


VECTORS = {path.name: load(path) for path in sorted(FOLDER.iterdir())}


def pem(key):
    encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_bytes(encoding, form)


@pytest.fixture(scope="module")
def verify(tmp_path_factory):
    """Trusts the one key of the vectors."""
    file = tmp_path_factory.mktemp("keys") / "trusted.pem"
    file.write_bytes(pem(build_signature.OURS.public_key()))
    return keys.verifier(file)


def test_the_vectors_are_as_their_builder_writes_them():
    built = build_signature.build()
    assert {name: (FOLDER / name).read_bytes() for name in built} == built
    assert set(built) == set(VECTORS)


@pytest.mark.parametrize("name", VECTORS)
def test_a_vector_gives_its_answer(name, verify):
    header, raw = VECTORS[name]
    if header["expect"] in ("plan", "verdict", "body"):
        proven = proof.prove(raw, verify=verify)
        assert proven.form == header["expect"]
        assert proven.level is Level.SIGNED
        assert proven.evidence[:2] == ("signed", f"key:{build_signature.keyid(build_signature.OURS)}")
        return
    with pytest.raises(Refused) as refused:
        proof.prove(raw, verify=verify)
    assert refused.value.signal == header["expect"]
    assert refused.value.received_bytes == len(raw)
    assert refused.value.expected_bytes is None
    assert refused.value.detail.isprintable()


def test_every_cut_every_flip_and_anything_after_is_refused(verify):
    _, raw = VECTORS["body"]
    wrong = [raw[:at] for at in range(len(raw))]
    wrong += [raw[:at] + bytes([raw[at] ^ 1 << bit]) + raw[at + 1 :] for at in range(len(raw)) for bit in range(8)]
    wrong += [raw + more for more in (b"{}", b"x", b"\0", raw)]
    for damaged in wrong:
        with pytest.raises(Refused):
            proof.prove(damaged, verify=verify)


@given(st.binary(max_size=300), st.text(max_size=20))
def test_any_payload_is_proven_or_refused(payload, keyid):
    signature = dsse.Signature(keyid, bytes(64))
    raw = dsse.dumps(payload, (signature,))
    with pytest.raises(Refused):
        proof.prove(raw, verify=lambda _keyid, _sig, _message: None)
    with pytest.raises(Refused):
        proof.prove(raw)


def test_the_encoding_is_the_one_of_the_dsse_specification():
    assert dsse.pae(b"hello world", "http://example.com/HelloWorld") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )
    assert dsse.pae("\u2200".encode(), "\u00e9") == b"DSSEv1 2 \xc3\xa9 3 \xe2\x88\x80"


def test_lengths_count_so_no_two_payloads_share_an_encoding():
    assert dsse.pae(b"a", "b 1 c") != dsse.pae(b"c 1 a", "b")


# --- keys (D9) and the face


@pytest.fixture
def made(tmp_path):
    private, public, keyid = keys.new(tmp_path / "sealer.key")
    return private, public, keyid


def test_a_new_key_signs_and_its_other_half_checks(made):
    private, public, keyid = made
    signed = endmark.sign(ENVELOPE, private)
    assert signed == endmark.sign(ENVELOPE, private)
    assert endmark.check(signed, trusted_keys=public).evidence[1] == f"key:{keyid}"
    # Seen with other eyes: the signature is plain Ed25519 over the documented bytes.
    document = strictjson.loads(signed)
    key = serialization.load_pem_public_key(public.read_bytes())
    assert isinstance(key, Ed25519PublicKey)
    key.verify(base64.b64decode(document["signatures"][0]["sig"]), build_signature.pae(ENVELOPE))


def test_a_new_key_is_its_owners_alone_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        private, public, _ = keys.new(tmp_path / "k")
    finally:
        os.umask(before)
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert stat.S_IMODE(public.stat().st_mode) == 0o644


def test_nothing_is_overwritten_and_no_link_followed(tmp_path):
    keys.new(tmp_path / "k")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for name in ("k", "other"):
        if name == "other":
            (tmp_path / "other.pub").write_text("mine")
        with pytest.raises(CannotTry, match="exists already"):
            keys.new(tmp_path / name)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CannotTry, match="exists already"):
        keys.new(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o610, 0o601])
def test_a_private_key_that_others_can_touch_is_not_used(made, mode):
    private, _, _ = made
    private.chmod(mode)
    with pytest.raises(CannotTry, match="can be read by others"):
        endmark.sign(ENVELOPE, private)


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_trusted_keys_that_others_can_change_are_not_used(made, mode):
    private, public, _ = made
    signed = endmark.sign(ENVELOPE, private)
    public.chmod(mode)
    with pytest.raises(CannotTry, match="can be changed by others"):
        endmark.check(signed, trusted_keys=public)


def written(path, content, mode=0o600):
    path.write_bytes(content)
    path.chmod(mode)
    return path


def private_pem(key, encryption=None):
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, encryption or serialization.NoEncryption())


def test_what_is_no_ed25519_key_is_said_to_be_none(made, tmp_path):
    private, public, _ = made
    rsa = generate_private_key(65537, 2048)
    locked = private_pem(Ed25519PrivateKey.generate(), serialization.BestAvailableEncryption(b"secret"))
    wrong = {
        "no private key": b"hello",
        "no private": public.read_bytes(),
        "another kind": private_pem(rsa),
        "password": locked,
    }
    for says, content in wrong.items():
        with pytest.raises(CannotTry) as fault:
            endmark.sign(ENVELOPE, written(tmp_path / "wrong", content))
        if says == "no private key":
            assert "is not a private key" in fault.value.detail
        assert "hello" not in fault.value.detail
    cut = private.read_bytes()[:60]
    with pytest.raises(CannotTry, match="is not a private key"):
        endmark.sign(ENVELOPE, written(tmp_path / "cut", cut))
    signed = endmark.sign(ENVELOPE, private)
    for content in (b"", b"hello", private.read_bytes(), pem(rsa.public_key()), public.read_bytes()[:50]):
        with pytest.raises(CannotTry):
            endmark.check(signed, trusted_keys=written(tmp_path / "trusted", content))
    two = public.read_bytes() + b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    mixed = written(tmp_path / "trusted", two)
    with pytest.raises(CannotTry, match="beside them"):
        endmark.check(signed, trusted_keys=mixed)
    for nothing in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(CannotTry):
            endmark.sign(ENVELOPE, nothing)
        with pytest.raises(CannotTry):
            endmark.check(signed, trusted_keys=nothing)


def test_several_keys_are_trusted_one_after_another(tmp_path):
    pairs = [keys.new(tmp_path / f"k{at}") for at in range(3)]
    trusted = written(tmp_path / "trusted", b"\n".join(public.read_bytes() for _, public, _ in pairs[:2]))
    for private, _, keyid in pairs[:2]:
        assert f"key:{keyid}" in endmark.check(endmark.sign(ENVELOPE, private), trusted_keys=trusted).evidence
    with pytest.raises(Refused) as refused:
        endmark.check(endmark.sign(ENVELOPE, pairs[2][0]), trusted_keys=trusted)
    assert refused.value.signal == "weak-evidence"


def test_who_names_keys_gets_nothing_that_is_not_signed(made):
    _, public, _ = made
    for whole in (ENVELOPE, answers.witness().encode()):
        assert endmark.check(whole)
        with pytest.raises(Refused) as refused:
            endmark.check(whole, trusted_keys=public)
        assert refused.value.signal == "weak-evidence"


def test_only_a_whole_envelope_is_signed(made):
    private, _, _ = made
    for raw in (b"", b"{}", ENVELOPE[:-1], ENVELOPE + b"\n", endmark.sign(ENVELOPE, private)):
        with pytest.raises(Refused):
            endmark.sign(raw, private)
    with pytest.raises(Refused, match="signed envelope already"):
        endmark.seal(endmark.sign(ENVELOPE, private))


def test_the_cap_is_for_the_body(made):
    private, public, _ = made
    signed = endmark.sign(mc1.seal(b'{"a":"%s"}' % (b"x" * 900)), private)
    assert endmark.check(signed, trusted_keys=public, cap=1_000)
    with pytest.raises(Refused) as refused:
        endmark.check(signed, trusted_keys=public, cap=900)
    assert refused.value.signal == "over-cap"


def test_a_gate_with_keys_takes_a_signed_plan(made, tmp_path):
    private, public, keyid = made
    make_database(tmp_path / "app.db")
    url = f"sqlite:///{tmp_path / 'app.db'}"
    signed = endmark.sign(endmark.seal(answers.witness().encode()), private)
    with endmark.Gate(tmp_path / "ledger.db") as gate, pytest.raises(Refused) as refused:
        gate.submit(signed)
    assert refused.value.signal == "weak-evidence"
    options = Options(min_evidence=Level.SIGNED)
    with endmark.Gate(tmp_path / "ledger.db", trusted_keys=public, options=options) as gate:
        with pytest.raises(Refused, match="demands the evidence signed"):
            gate.submit(endmark.seal(answers.witness("job_2").encode()))
        outcome = gate.submit(signed).apply(url)
        assert outcome.state == "applied"
        assert outcome.evidence[:2] == ["signed", f"key:{keyid}"]
        altered = signed.replace(b'"sig":"', b'"sig":"AAAA', 1)[:-8] + signed[-4:]
        with pytest.raises(Refused):
            gate.submit(altered)
        other, _, _ = keys.new(tmp_path / "other.key")
        with pytest.raises(Refused, match="no trusted key"):
            gate.submit(endmark.sign(endmark.seal(answers.witness("job_3").encode()), other))
        assert gate.submit(signed).outcome.attempt_id == outcome.attempt_id


def test_without_cryptography_it_says_which_extra_is_missing(tmp_path):
    script = (
        "import sys; sys.modules['cryptography'] = None\n"
        f"import endmark\nassert endmark.check({ENVELOPE!r})\n"
        "try: endmark.check(b'{}', trusted_keys='k')\n"
        "except endmark.CannotTry as fault: print(fault.detail)\n"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert "pip install 'endmark[sign]'" in said.stdout, said.stderr
