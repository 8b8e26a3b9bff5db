#!/bin/sh
# Makes .venv and installs what is pinned in requirements/. Does nothing when that is already done.
# Usage: scripts/setup.sh demo|dev|bench          (PYTHON=/path/to/python3 names the Python to use)
set -eu
cd "$(dirname "$0")/.."
what=$1
here=$(pwd)
unset PYTHONPATH PYTHONHOME PYTHONSAFEPATH PYTHONWARNINGS VIRTUAL_ENV PIP_TARGET PIP_PREFIX
export PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1

say() { printf 'endmark: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

# Runs a command in silence; if it fails, shows the end of what it said.
quietly() {
    said=$("$@" 2>&1) && return
    printf '%s\n' "$said" | tail -n 20 >&2
    return 1
}

# Does this Python run (a shim may exist and fail), and has it what endmark needs?
suits() { "$1" -c 'import sys, sqlite3, ssl; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

# Debian keeps ensurepip in a package of its own.
can_make_venvs() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

find_python() {
    if [ -n "${PYTHON:-}" ]; then
        suits "$PYTHON" || die "PYTHON=$PYTHON is not a working Python 3.11 or newer with sqlite3 and ssl."
        printf '%s\n' "$PYTHON"
        return
    fi
    second_best=
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        suits "$name" || continue
        if can_make_venvs "$name"; then
            printf '%s\n' "$name"
            return
        fi
        second_best=${second_best:-$name}
    done
    [ -n "$second_best" ] || die "no Python 3.11 or newer was found: install one, or name it: make PYTHON=/path/to/python3."
    printf '%s\n' "$second_best"
}

install_venv_package() {
    package=$("$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    command -v apt-get >/dev/null || die "$1 cannot make virtual environments: install a complete Python, or name one: make PYTHON=/path/to/python3."
    [ "$(id -u)" -eq 0 ] || die "$1 cannot make virtual environments: run 'sudo apt-get install $package', then make again."
    say "installing $package"
    export DEBIAN_FRONTEND=noninteractive
    quietly apt-get update || say "apt-get update failed; trying all the same"
    quietly apt-get install --yes "$package" || die "apt-get could not install $package."
}

# What tells one .venv from another: where it stands, and its Python.
identity() { pwd && "$1" -c 'import sys; print(sys.base_prefix, sys.version)'; }

usable() {
    suits .venv/bin/python && .venv/bin/python -c 'import pip' >/dev/null 2>&1 || return 1
    identity .venv/bin/python | cmp -s - .venv/made-for || return 1
    [ -z "${PYTHON:-}" ] || identity "$PYTHON" 2>/dev/null | cmp -s - .venv/made-for
}

make_venv() {
    found=$(find_python)
    # The real program: the one found may be a shim, or stand in the .venv that is about to be replaced.
    python=$("$found" -c 'import sys; print(getattr(sys, "_base_executable", "") or sys.executable)')
    can_make_venvs "$python" || install_venv_package "$python"
    say "making .venv with Python $("$python" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])')"
    quietly "$python" -m venv --clear .venv || die "could not make $here/.venv: see above."
    identity .venv/bin/python >.venv/made-for
}

install() {
    quietly .venv/bin/python -m pip install --quiet --no-input "$@" ||
        die "an install failed, see above: check the network (PIP_INDEX_URL names a mirror), then make again."
}

wanted() { cat pyproject.toml requirements/build.txt requirements/runtime.txt "requirements/$what.txt"; }

usable || make_venv
wanted | cmp -s - ".venv/installed-$what" && exit 0
say "installing requirements/$what.txt"
install -r requirements/build.txt -r "requirements/$what.txt"
install --no-deps --no-build-isolation --editable .
wanted >".venv/installed-$what"
