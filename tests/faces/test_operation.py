"""The unit and the container file say what they promise, in the words their readers take."""

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from endmark.faces import cli
from endmark.faces.http.settings import Settings
from endmark.faces.worker.outbox import QueueTable

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "integrations" / "systemd" / "endmark.service"
WORKER = UNIT.with_name("endmark-worker.service")
UNITS = pytest.mark.parametrize("file", [UNIT, WORKER], ids=lambda file: file.stem)
CONTAINER = ROOT / "integrations" / "container" / "Containerfile"


class _Several(dict):
    """Keys that may stand more than once."""

    def __setitem__(self, key, value):
        if isinstance(value, list) and isinstance(self.get(key), list):
            value = self[key] + value
        super().__setitem__(key, value)


def unit(file):
    parser = configparser.RawConfigParser(strict=False, dict_type=_Several, comment_prefixes=("#",), delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(file)
    return {section: dict(parser.items(section)) for section in parser.sections()}


def verb(name):
    found = cli.commands.get_command(click.Context(cli.commands), name)
    assert found is not None
    return found


def found_in(pattern, text):
    match = re.search(pattern, text, re.MULTILINE)
    assert match is not None, pattern
    return match


@UNITS
def test_the_unit_runs_what_there_is(file):
    service = unit(file)["Service"]
    program, *words = shlex.split(service["ExecStart"])
    assert program.startswith("/")
    assert program.endswith("/endmark")
    command = verb(words[0])
    known = {spelling for parameter in command.params for spelling in parameter.opts}
    assert "--config" in words
    assert {word for word in words if word.startswith("--")} <= known


@UNITS
def test_the_unit_lets_it_drain(file):
    service = unit(file)["Service"]
    assert service["KillSignal"] == "SIGTERM"
    longest = max(Settings().drain_timeout, QueueTable(url="postgresql:///x").drain_timeout)
    assert int(service["TimeoutStopSec"]) >= 2 * longest


def test_two_units_on_one_machine_share_no_folder():
    assert unit(UNIT)["Service"]["StateDirectory"] == "endmark"
    assert unit(WORKER)["Service"]["StateDirectory"] == "endmark-worker"


@UNITS
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("DynamicUser", "yes"), ("StateDirectoryMode", "0700"), ("UMask", "0077"),
        ("ProtectSystem", "strict"), ("NoNewPrivileges", "yes"), ("CapabilityBoundingSet", ""),
    ],
)  # fmt: skip
def test_the_unit_is_hardened(file, key, value):
    assert unit(file)["Service"][key] == value


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@UNITS
def test_systemd_takes_the_unit(tmp_path, file):
    """With a program that is there in the place of the installed one."""
    copy = tmp_path / file.name
    copy.write_text(file.read_text().replace("/opt/endmark/bin/endmark", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True)
    assert [line for line in done.stderr.splitlines() if file.name in line] == []
    (tmp_path / "bad.service").write_text(copy.read_text().replace("ProtectSystem=strict", "ProtectSystm=strict"))
    said = subprocess.run(["systemd-analyze", "verify", "--man=no", tmp_path / "bad.service"], capture_output=True)
    assert b"ProtectSystm" in said.stderr


def test_the_container_file():
    text = CONTAINER.read_text()
    stages = re.split(r"^FROM ", text, flags=re.MULTILINE)[1:]
    assert len(stages) == 2
    last = stages[1]
    assert re.search(r"^USER 10001:10001$", last, re.MULTILINE)
    assert last.index("USER ") > last.rindex("RUN ")
    assert "STOPSIGNAL SIGTERM" in last
    assert "/healthz" in found_in(r"HEALTHCHECK(.*\n)*?.*CMD .*", last)[0]
    extras = set(found_in(r"'\.\[(.*)\]'", text)[1].split(","))
    assert extras <= set(re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE))
    words = [word.strip('"') for word in found_in(r"^CMD \[(.*)\]", last)[1].split(", ")]
    command = verb(words[1])
    known = {spelling for parameter in command.params for spelling in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known
