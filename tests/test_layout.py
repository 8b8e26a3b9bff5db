"""The house rules: the rooms, their doors, and what may stand nowhere. Each rule is also seen to catch its breach."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

import endmark

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src" / "endmark"
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONTRACTS = {contract["id"]: contract for contract in CONFIG["tool"]["importlinter"]["contracts"]}

ROOMS = {"faces", "drills", "steps", "sources", "wires", "effects", "ledger", "core"}
DOINGS = {
    "apply_gate.py",
    "patch_gate.py",
    "push_gate.py",
    "replay.py",
    "reaudit.py",
    "reconcile.py",
    "reconcile_patches.py",
}
SHARED_STEPS = {"seal.py"}
DOORS = {"__init__.py", "__main__.py", "py.typed"}
JSON_READER = SRC / "core" / "strictjson.py"
LONGEST = 450


def tracked_files():
    """Every file of the project: what git knows or would add; outside git, what no tool made."""
    listing = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
    )
    if listing.returncode == 0:
        found = [ROOT / name for name in listing.stdout.decode().split("\0") if name]
    else:
        made = re.compile(r"\.venv|\.git|\.hypothesis|__pycache__|\..*_cache|build|dist")
        found = [path for path in ROOT.rglob("*") if not any(map(made.fullmatch, path.relative_to(ROOT).parts))]
    return [path for path in found if path.is_file()]


def texts():
    for path in tracked_files():
        try:
            yield path.relative_to(ROOT), path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


@cache
def syntax_trees():
    return [(path, ast.parse(path.read_text(encoding="utf-8"), str(path))) for path in sorted(SRC.rglob("*.py"))]


# --- the rooms


def test_only_the_rooms_stand_at_the_top():
    standing = {path.name for path in SRC.iterdir() if path.name != "__pycache__"}
    assert standing - ROOMS - DOINGS - SHARED_STEPS - DOORS == set()


def test_every_folder_of_code_is_a_package_with_a_docstring():
    doors = {path.parent / "__init__.py" for path in SRC.rglob("*.py")}
    assert [str(door) for door in doors if not door.is_file()] == []
    assert [str(door) for door in doors if not ast.get_docstring(ast.parse(door.read_text()))] == []


def test_every_module_says_what_it_is_for():
    assert [str(path.relative_to(ROOT)) for path, tree in syntax_trees() if not ast.get_docstring(tree)] == []


def test_no_file_outgrows_its_reader():
    lengths = {str(path): len(text.splitlines()) for path, text in texts() if path.suffix == ".py"}
    assert {path: length for path, length in lengths.items() if length > LONGEST} == {}


def test_the_version_is_one():
    assert endmark.__version__ == CONFIG["project"]["version"]


# --- the doors


def lint_imports(folder):
    """The contracts of `folder`'s pyproject.toml, checked against the package in `folder`/src."""
    run = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True, no_logo=True))"
    return subprocess.run(
        [sys.executable, "-c", run],
        cwd=folder,
        env={"PYTHONPATH": str(folder / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )


def ruff(folder, *arguments):
    return subprocess.run([sys.executable, "-m", "ruff", *arguments], cwd=folder, capture_output=True, text=True)


def copied(folder):
    """A copy of the package in which a test may break a rule."""
    shutil.copy(ROOT / "pyproject.toml", folder)
    shutil.copytree(SRC, folder / "src" / "endmark", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture
def copy(tmp_path):
    return copied(tmp_path)


def plant(folder, files):
    package = folder / "src" / "endmark"
    for name, text in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for parent in path.parents:
            if parent == package:
                break
            if not (parent / "__init__.py").exists():
                (parent / "__init__.py").write_text('"""Planted."""\n')
        path.write_text(text)


def test_imports_point_down():
    found = lint_imports(ROOT)
    assert found.returncode == 0, found.stdout + found.stderr


# Each in a file of its own, so that all can be planted at once: which contract, which file, what stands in it.
BREACHES = {
    "core reads a database": ("pure", "core/a.py", "import sqlite3"),
    "core starts a program, inside a function": ("pure", "core/b.py", "def f():\n    import subprocess"),
    "core opens a path": ("pure", "core/c.py", "from pathlib import Path"),
    "core asks the clock": ("pure", "core/d.py", "from time import monotonic"),
    "core takes chances": ("pure", "core/e.py", "import secrets"),
    "core hides an import": ("pure", "core/f.py", "import importlib"),
    "core shows SQL": ("pure", "core/g.py", "import sqlglot.expressions"),
    "a wire opens a socket": ("pure", "wires/a.py", "import socket"),
    "a wire's helper reads the environment": ("pure", "wires/b.py", "from endmark.core import helper"),
    "core looks up": ("rooms", "core/h.py", "import endmark.ledger.harmless"),
    "a wire looks up": ("rooms", "wires/c.py", "from endmark.sources import harmless"),
    "effects write the ledger": ("rooms", "effects/a.py", "from endmark.ledger import harmless"),
    "the ledger runs effects": ("rooms", "ledger/a.py", "from endmark.effects import harmless"),
    "sources run effects": ("rooms", "sources/a.py", "from endmark.effects import harmless"),
    "seal calls a doing": ("rooms", "seal.py", "from endmark import reaudit"),
    "a doing calls another": ("rooms", "replay.py", "from endmark import reaudit"),
    "a doing talks": ("rooms", "reconcile.py", "import endmark.faces.harmless"),
    "a drill talks": ("rooms", "drills/a.py", "import endmark.faces.harmless"),
    "core goes through the front door": ("front-door", "core/i.py", "import endmark"),
    "a doing goes through the front door": ("front-door", "push_gate.py", "from endmark import Gate"),
    "a face repairs": ("no-repair", "faces/a.py", "import json_repair"),
    "a source parses parts": ("no-repair", "sources/b.py", "def f():\n    from ijson import items"),
    "core parses parts": ("no-repair", "core/j.py", "from pydantic_core import from_json"),
}
HARMLESS = {f"{room}/harmless.py": "" for room in ("effects", "faces", "ledger", "sources")}
ROOMLESS = {"a module": "helpers.py", "a folder": "utils/__init__.py"}


def is_broken(found, contract, file):
    """Whether import-linter names the contract as broken, and the module as who broke it."""
    assert found.returncode == 1, found.stdout + found.stderr
    name = CONTRACTS[contract]["name"]
    assert re.search(rf"^{re.escape(name)}\s+BROKEN$", found.stdout, re.MULTILINE), found.stdout
    culprit = "endmark." + file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return re.search(rf"^\W*{re.escape(culprit)}\b", found.stdout, re.MULTILINE) is not None


@pytest.fixture(scope="module")
def all_planted(tmp_path_factory):
    """Every breach at once, in one copy; the tools' other findings do not hide one from another."""
    folder = copied(tmp_path_factory.mktemp("planted"))
    plant(folder, HARMLESS | {"core/helper.py": "import os.path"} | {file: text for _, file, text in BREACHES.values()})
    return lint_imports(folder)


def test_what_is_planted_is_in_files_of_its_own():
    assert len({file for _, file, _ in BREACHES.values()}) == len(BREACHES)


@pytest.mark.parametrize("breach", BREACHES)
def test_a_planted_import_is_caught(all_planted, breach):
    contract, file, _ = BREACHES[breach]
    assert is_broken(all_planted, contract, file), all_planted.stdout


@pytest.mark.parametrize("kind", ROOMLESS)
def test_what_has_no_room_is_caught(copy, kind):
    plant(copy, {ROOMLESS[kind]: ""})
    found = lint_imports(copy)
    assert is_broken(found, "rooms", ROOMLESS[kind]), found.stdout


# --- what may stand nowhere

LENIENT = [
    'import json\n\njson.loads("{}")\n',
    'import json as quietly\n\nquietly.loads("{}")\n',
    'from json import loads\n\nloads("{}")\n',
    "import json\n\njson.load(None)\n",
    "import json\n\njson.JSONDecoder()\n",
    'import msgspec\n\nmsgspec.json.decode(b"{}")\n',
    'from pydantic_core import from_json\n\nfrom_json("{")\n',
    "from json_repair import repair_json\n",
]


@pytest.mark.parametrize("text", LENIENT)
@pytest.mark.parametrize("room", ["faces", "ledger", "core"])
def test_a_planted_lenient_reader_is_caught(copy, room, text):
    plant(copy, {f"{room}/planted.py": text})
    found = ruff(copy, "check", "--no-cache", "--select=TID251", f"src/endmark/{room}/planted.py")
    assert found.returncode == 1, found.stdout + found.stderr
    assert "TID251" in found.stdout


def test_only_the_strict_reader_reads_json(copy):
    plant(copy, {"core/strictjson.py": LENIENT[0]})
    found = ruff(copy, "check", "--no-cache", "--select=TID251", "src/endmark/core/strictjson.py")
    assert found.returncode == 0, found.stdout


def test_both_tools_ban_the_same_parsers():
    banned = CONFIG["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    assert {name for name in banned if "." not in name} == set(CONTRACTS["no-repair"]["forbidden_modules"])


READERS = (
    "json.load",
    "json.loads",
    "json.JSONDecoder",
    "json.decoder",
    "json.scanner",
    "msgspec.json.decode",
    "msgspec.json.Decoder",
)


def names_read(tree):
    """Every dotted name in a module, with its line; imported names are spelled in full."""
    full = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            prefix = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                yield node.lineno, prefix + alias.name
                if alias.asname or prefix:
                    full[alias.asname or alias.name] = prefix + alias.name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            line = node.lineno
            rest: list[str] = []
            while isinstance(node, ast.Attribute):
                rest.insert(0, node.attr)
                node = node.value
            if isinstance(node, ast.Name):
                yield line, ".".join([full.get(node.id, node.id), *rest])


def lenient_names(tree):
    return [(line, name) for line, name in names_read(tree) if f"{name}.".startswith(tuple(f"{r}." for r in READERS))]


def test_json_is_read_in_one_module():
    found = {str(path.relative_to(ROOT)): lenient_names(tree) for path, tree in syntax_trees() if path != JSON_READER}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize("text", [text for text in LENIENT if "json_repair" not in text and "pydantic" not in text])
def test_the_scan_for_readers_sees_them(text):
    assert lenient_names(ast.parse(text))


def test_nothing_runs_a_script():
    """`executescript` commits what is open and cannot be guarded; SQL text is never split either."""
    found = {
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in syntax_trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "executescript"
    }
    assert found == set()


def test_core_and_wires_stand_on_the_standard_library_and_msgspec():
    allowed = set(sys.stdlib_module_names) | {"msgspec", "endmark"}
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path, tree in syntax_trees()
        if path.relative_to(SRC).parts[0] in {"core", "wires"}
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or "."])
        if name.partition(".")[0] not in allowed
    }
    assert found == set()


# --- the tree

HOMES = re.compile(r"(?<![\w.:/-])/(?:root|work|home/[\w.-]+|Users/[\w.-]+)/")
REGISTRIES = [
    ".".join(parts) for parts in [("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("debian", "org")]
]
LOCK_FILES = {"poetry.lock", "uv.lock", "pdm.lock", "Pipfile.lock", "pylock.toml", "package-lock.json", "yarn.lock"}


def test_no_text_names_a_folder_of_somebodys_machine():
    assert {(str(path), found.group()) for path, text in texts() for found in HOMES.finditer(text)} == set()


def test_no_text_names_a_package_registry():
    assert {(str(path), host) for path, text in texts() for host in REGISTRIES if host in text} == set()


def test_pins_are_plain():
    """Exact versions and nothing else: no address, no hash, no option that points at an index."""
    line = re.compile(r"(?:[A-Za-z0-9_.-]+==[A-Za-z0-9_.!+-]+|-r [a-z]+\.txt|#.*|)")
    files = sorted((ROOT / "requirements").glob("*.txt"))
    assert files
    strange = {
        (file.name, text) for file in files for text in file.read_text().splitlines() if not line.fullmatch(text)
    }
    assert strange == set()


def test_no_lock_file_and_no_borrowed_code():
    borrowed = {"vendor", "_vendor", "third_party", "node_modules"}
    files = [path.relative_to(ROOT) for path in tracked_files()]
    assert [str(path) for path in files if path.name in LOCK_FILES or borrowed & set(path.parts)] == []
    notice = re.compile(r"copyright\s+(?:\(c\)|©|\d{4})", re.IGNORECASE)
    assert [str(path) for path, text in texts() if path.name != "LICENSE" and notice.search(text)] == []
