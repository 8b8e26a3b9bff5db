"""Bodies that came short, twice, compressed or not at all. What they declare inside decides, whatever carried them."""

import gzip
import zlib

import pytest
from tests.incidents import payloads, repair
from tests.incidents.rows import agrees
from tests.incidents.world import judged, refusal, state_of

from endmark.core.evidence import Level
from endmark.core.plan import Plan
from endmark.core.refusal import Refused
from endmark.faces.api import check

STATEMENTS = [
    "CREATE TABLE city (name TEXT)",
    "INSERT INTO city VALUES ('Paris'), ('東京')",
    "INSERT INTO runs VALUES ('r')",
]

# --- nothing at all

NOTHING = [
    b"",
    b" ",
    b"\r\n\t ",
    b"{}",
    b" {} ",
    b'""',
    b"null",
    b"[]",
    b"{}{}",
    b"\0",
    b"\xef\xbb\xbf",
    b"\xef\xbb\xbf{}",
]
EMPTY_ROWS = ["INC-006", "INC-026", "INC-170", "INC-171"]


@pytest.mark.parametrize("row_id", EMPTY_ROWS)
def test_nothing_is_not_an_empty_answer(world, row_id):
    for text in NOTHING:
        for raw in (text, payloads.in_envelope(text)):
            said = world.refuses(raw)
            assert agrees(row_id, said.state), raw
        assert agrees(row_id, state_of(refusal(text)))
    for text in (b"", b" ", b"{}"):
        assert state_of(refusal(text)) == "truncated", text
    assert world.refuses(b"", job_id=f"call-{row_id}").job_id == f"call-{row_id}", "the call's id is spent"
    again = world.refuses(payloads.witness(f"call-{row_id}", STATEMENTS))
    assert (again.state, again.signal) == ("rejected", "id-reused")


@pytest.mark.parametrize("row_id", ["INC-170", "INC-171"])
def test_an_empty_answer_of_a_provider_holds_no_payload(row_id):
    """The text and the calls of such answers, as an adapter would take them out."""
    answers = {
        "INC-170": {"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]},
        "INC-171": {"content": [{"type": "thinking", "thinking": ""}], "stop_reason": None},
    }
    assert agrees(row_id, state_of(refusal(payloads.compact(answers[row_id])))), "nor is the answer itself one"
    assert agrees(row_id, state_of(refusal("".join([]).encode())))


# --- short bodies


def test_inc_148_every_length_a_download_may_stop_at(world):
    whole = payloads.envelope("JOB", [*STATEMENTS, payloads.write_file("big", "x" * 2200)])
    header = whole.index(b"\n") + 1
    assert len(whole) > 2500
    for n in range(len(whole)):
        said = refusal(whole[:n])
        assert agrees("INC-148", state_of(said)), n
        assert (said.received_bytes, said.expected_bytes) == (n, len(whole) if n >= header else None)
        assert n < header or said.signal == "body-cut"
    assert agrees("INC-148", world.refuses(whole[:-1]).state)
    assert world.apply(whole).state == "applied"


def test_inc_150_seven_percent_of_a_large_body(world):
    size, arrived = 26_703_576, 1_866_599

    def sized(padding):
        return payloads.envelope("JOB", ["SELECT 1", f"INSERT INTO runs VALUES ('r') -- {'é' * (padding // 2)}"])

    whole = sized(size - len(sized(0)) - 5)  # the length of the body takes five digits more
    assert len(whole) == size
    said = world.refuses(whole[:arrived])
    assert agrees("INC-150", said.state)
    assert (said.received_bytes, said.expected_bytes) == (arrived, len(whole))
    assert f"received 1,866,599 of {len(whole):,} bytes" in said.detail.lower()
    for n in (0, 1, 77, 78, 79, 2**16, 2**20, 2**24, arrived + 1, len(whole) - 6, len(whole) - 5, len(whole) - 1):
        assert agrees("INC-150", state_of(refusal(whole[:n]))), n
    assert check(whole).expected_bytes == len(whole)


def relabelled(whole, n):
    """The first n bytes of an envelope, its declared length rewritten to fit: what a helpful relay would do."""
    digest = whole.split(b" ", 2)[2][:64]
    body = whole[whole.index(b"\n") + 1 :][:n]
    return b"MC1 %d %s\n%s" % (len(body), digest, body)


def test_inc_151_a_relay_that_rewrites_the_length(world):
    """The first megabyte of 1.2, and then every length of a smaller one; the carrier's own length fits each time."""
    whole = payloads.envelope("JOB", [*STATEMENTS, payloads.write_file("big", "0123456789" * 120_000)])
    loose = payloads.witness("JOB", [*STATEMENTS, payloads.write_file("big", "0123456789" * 120_000)])
    for n in (10**6, 2**20, *range(1, len(loose), 29_989), *range(len(loose) - 20, len(loose))):
        assert agrees("INC-151", state_of(refusal(whole[:n])))
        assert agrees("INC-151", state_of(refusal(loose[:n])))
    assert agrees("INC-151", world.refuses(whole[: 10**6]).state)
    small = payloads.envelope("JOB", STATEMENTS)
    body = len(small) - small.index(b"\n") - 1
    for n in range(1, body):
        assert agrees("INC-151", state_of(refusal(relabelled(small, n)))), n
    assert relabelled(small, body) == small
    assert agrees("INC-151", world.refuses(relabelled(small, body - 40)).state)


def test_inc_152_the_first_4000_characters(world):
    statements = [payloads.write_file(f"f{n}", f"ä{'text ' * 60}") for n in range(15)]
    for form, whole in payloads.forms("JOB", statements).items():
        text = whole.decode()
        assert len(text) > 4500
        for head in (text[:4000], text[:4000] + "...", text[:4000] + "\n[truncated]"):
            assert agrees("INC-152", world.refuses(head.encode()).state)
            for fix in repair.REPAIRERS.values():
                assert agrees("INC-152", state_of(refusal(fix(head).encode()))) or form == "proof-first"
        for n in range(len(text)):
            assert agrees("INC-152", state_of(refusal(text[:n].encode()))), (form, n)
            closed = text[:n] + '"]}'
            if form in ("witness", "plan"):
                assert agrees("INC-152", state_of(refusal(closed.encode()))), (form, n)


# --- compressed bodies


def decoded(compressed):
    """What a forgiving client makes of a compressed body: all it can decode, and no complaint."""
    return zlib.decompressobj(31).decompress(compressed)


@pytest.mark.parametrize("form", ["witness", "plan", "envelope"])
def test_inc_153_what_a_cut_gzip_body_decodes_to(world, form):
    whole = payloads.forms("JOB", [*STATEMENTS, payloads.write_file("f", "".join(map(str, range(300))))])[form]
    compressed = gzip.compress(whole, mtime=0)
    short = 0
    for n in range(len(compressed) + 1):
        assert agrees("INC-153", state_of(refusal(compressed[:n]))), "nothing is decompressed behind anybody's back"
        prefix = decoded(compressed[:n])
        if prefix != whole:
            short += 1
            assert agrees("INC-153", state_of(refusal(prefix))), n
    assert short >= len(compressed) - 30
    assert decoded(compressed[:-30]) != whole
    assert agrees("INC-153", world.refuses(decoded(compressed[:-30])).state)


@pytest.mark.parametrize("form", ["witness", "plan", "envelope"])
def test_inc_154_a_valid_stream_of_a_prefix(world, form):
    """The encoder lost what came after: its checksum and length are right, and right about too little."""
    whole = payloads.forms("JOB", STATEMENTS)[form]
    for n in range(len(whole)):
        prefix = zlib.decompress(zlib.compress(whole[:n]))
        assert agrees("INC-154", state_of(refusal(prefix))), n
    assert agrees("INC-154", world.refuses(gzip.decompress(gzip.compress(whole[:-20]))).state)
    assert check(zlib.decompress(zlib.compress(whole)))


@pytest.mark.parametrize("row_id", ["INC-048", "INC-155"])
def test_a_gzip_body_without_its_end_is_no_payload(world, row_id):
    """As bytes. That a body whose trailer alone is missing is refused while it is fetched, sources will show."""
    whole = payloads.envelope("JOB", STATEMENTS)
    stream = b'data: {"delta":"' + whole.replace(b'"', b'\\"') + b'"}\n\n' if row_id == "INC-048" else whole
    compressed = gzip.compress(stream, mtime=0)
    for cut in (compressed[:-8], compressed[:-1], compressed[: len(compressed) // 2], compressed):
        assert agrees(row_id, world.refuses(cut).state)
        part = decoded(cut)[:-1]
        assert agrees(row_id, state_of(refusal(part)))


# --- bodies that came twice, or a part of them


def test_inc_120_deltas_and_the_whole_again(world):
    for form, whole in payloads.forms("JOB", STATEMENTS).items():
        for between in (b"", b"\n", b" ", b",", b"\n\n"):
            for raw in (whole + between + whole, whole + between + b"{}", whole + between + whole[:1]):
                assert agrees("INC-120", state_of(refusal(raw))), form
        assert agrees("INC-120", world.refuses(whole + whole).state)
    text = payloads.witness("JOB", STATEMENTS)
    assert agrees("INC-120", state_of(refusal(payloads.in_envelope(text + text))))


def test_inc_123_every_chunk_carries_all_so_far(world):
    """For every size of chunk: the arguments so far, again and again, at last the whole."""
    whole = payloads.witness("JOB", STATEMENTS)
    for step in range(1, len(whole)):
        chunks = [whole[:n] for n in range(step, len(whole), step)] + [whole]
        for raw in (b"".join(chunks), b"".join(chunks[:2]), b"".join([*chunks, whole])):
            if raw != whole:
                assert agrees("INC-123", state_of(refusal(raw))), step
    assert agrees("INC-123", world.refuses(whole[:100] + whole).state)
    assert world.refuses(b"{}").state == "truncated", "and nothing takes their place"


def doubled(whole):
    """Every chunk of a text doubled, wherever it begins and ends."""
    for begin in range(len(whole)):
        for end in range(begin + 1, len(whole) + 1):
            yield begin, end, whole[:end] + whole[begin:]


@pytest.mark.parametrize("form", ["plan", "envelope"])
def test_inc_124_one_chunk_twice_is_seen_by_a_digest(world, form):
    """The id of a bare plan is the one thing its digest does not cover; its evidence says so."""
    whole = payloads.forms("J", ["INSERT INTO runs VALUES ('11')"])[form]
    job = (whole.index(b'"J.plan"') + 1, whole.index(b'"J.plan"') + 7) if form == "plan" else (0, 0)
    for begin, end, raw in doubled(whole):
        if job[0] <= begin and end <= job[1]:
            assert "digest-does-not-cover:job_id,after,retry_of,base" in check(raw).evidence
        else:
            assert agrees("INC-124", state_of(refusal(raw))), (begin, end)
    assert agrees("INC-124", world.refuses(whole[:60] + whole[50:]).state)


def test_inc_124_one_chunk_twice_in_a_witness_form():
    """What a witness does not show: a chunk doubled inside a string. It is accepted, and as `witness` only."""
    whole = payloads.witness("J", ["INSERT INTO runs VALUES ('11')"])
    accepted = 0
    for begin, end, raw in doubled(whole):
        proven = judged(raw)
        if isinstance(proven, Refused):
            assert agrees("INC-124", state_of(proven))
            continue
        accepted += 1
        assert proven.level is Level.WITNESS
        assert isinstance(proven.value, Plan)
        assert b'"' not in whole[begin:end], "only inside one string"
    assert accepted > 0
