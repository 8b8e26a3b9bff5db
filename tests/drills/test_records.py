"""What a guard kept becomes an envelope."""

import gzip
import subprocess

import pytest
from tests.drills.running import ask, proxying
from tests.faces.shell import PROGRAM
from tests.support import answers
from tests.support.server import Script, serving

from endmark.core import strictjson
from endmark.drills.proxy.options import Guarding

CALL = answers.chat_call()


def sealed(file, *flags):
    command = [*PROGRAM, "seal", "--wire", "openai-chat", "--tool", "apply_schema", *flags, str(file)]
    return subprocess.run(command, capture_output=True, timeout=60)


@pytest.mark.parametrize("coding", ["", "gzip"])
def test_a_record_is_sealed_as_it_came(tmp_path, coding):
    sent = gzip.compress(CALL, mtime=0) if coding else CALL
    headers = {"Content-Encoding": coding} if coding else {}
    script = Script(sent, headers=headers)
    with serving(script) as server, proxying(server.url, guard=Guarding(record=tmp_path)) as proxy:
        assert ask(proxy.url).ended == "whole"
    (raw,) = tmp_path.glob("*.raw")
    about = strictjson.loads(raw.with_suffix(".json").read_bytes())
    assert raw.read_bytes() == sent
    assert about["content_encoding"] == coding
    flags = ["--content-encoding", about["content_encoding"]] if coding else []
    made = sealed(raw, *flags)
    assert (made.returncode, made.stderr) == (0, b"")
    assert made.stdout == sealed(write(tmp_path / "plain", CALL)).stdout
    assert made.stdout.startswith(b"MC1")
    if coding:
        assert sealed(raw).returncode != 0
        refused = sealed(write(tmp_path / "cut", sent[:-1]), *flags)
        assert (refused.returncode, refused.stdout) == (10, b"")
        assert sealed(raw, "--content-encoding", "rot13").stdout == b""


def write(path, data):
    path.write_bytes(data)
    return path
