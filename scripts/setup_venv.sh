#!/bin/sh
# Makes .venv (or $1) with the pinned dependencies and Windrow itself in it, from the checkout it stands in.
#
# PYTHON names the interpreter (default: that of an existing environment, else python3, else a newer python3.x
# on PATH). An existing environment of the same Python version is kept and brought up to date.
set -eu

cd "$(dirname "$0")/.."
VENV=${1:-.venv}
LOG=$VENV/setup.log
NEW_ENOUGH='import sys; sys.exit(sys.version_info < (3, 10))'

say() { echo "setup: $*"; }
fail() {
    echo "setup: $*" >&2
    exit 1
}

is_new_enough() { command -v "$1" >/dev/null 2>&1 && "$1" -c "$NEW_ENOUGH" 2>/dev/null; }

choose_python() {
    if [ -n "${PYTHON:-}" ]; then
        is_new_enough "$PYTHON" || fail "PYTHON=$PYTHON is not a Python 3.10 or newer."
        return
    fi
    if is_new_enough "$VENV/bin/python" && "$VENV/bin/python" -c 'import pip' 2>/dev/null; then
        PYTHON=$VENV/bin/python
        return
    fi
    for PYTHON in python3 python3.13 python3.12 python3.11 python3.10; do
        if is_new_enough "$PYTHON"; then return; fi
    done
    fail "Python 3.10 or newer is needed and not on PATH (python3 is: $(python3 --version 2>&1 || true)).
setup: Install one (Debian, Ubuntu: sudo apt-get install python3 python3-venv; Fedora: sudo dnf install python3)
setup: or name one: make setup PYTHON=/path/to/python3.11"
}

version_of() { "$1" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null; }

# Debian leaves venv's pip out of its python3 package.
ensure_venv_module() {
    if "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null; then return; fi
    package=$("$PYTHON" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    run=
    if [ "$(id -u)" != 0 ]; then run="sudo -n"; fi
    if [ -z "${WINDROW_NO_INSTALL:-}" ] && command -v apt-get >/dev/null 2>&1 && $run true 2>/dev/null; then
        say "$PYTHON cannot make environments: installing $package from the system's packages ..."
        $run apt-get update -qq || true
        $run env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" || true
    fi
    "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "$PYTHON lacks the modules venv and ensurepip. On Debian and Ubuntu: sudo apt-get install $package
setup: Then try again; or name a complete Python: make setup PYTHON=/path/to/python3.11"
}

make_venv() {
    version=$(version_of "$PYTHON")
    if [ "$(version_of "$VENV/bin/python" || true)" = "$version" ] && "$VENV/bin/python" -c 'import pip' 2>/dev/null; then
        return
    fi
    ensure_venv_module
    say "making $VENV with Python $version"
    rm -rf "$VENV"
    "$PYTHON" -m venv "$VENV"
}

# Quiet but for the big downloads; everything is in the log, the end of which is shown on failure.
pip_install() {
    status=$VENV/setup.status
    {
        if "$VENV/bin/python" -m pip install --disable-pip-version-check --no-deps --progress-bar off "$@" 2>&1; then
            echo 0 >"$status"
        else
            echo 1 >"$status"
        fi
    } | while IFS= read -r line; do
        echo "$line" >>"$LOG"
        case $line in
        *"Downloading "*" ("[0-9][0-9]*" MB)"*) say "downloading ${line#*Downloading }" ;;
        *"Building wheel for "*started*) say "building $(echo "${line#*Building wheel for }" | cut -d ' ' -f 1)" ;;
        esac
    done
    if [ "$(cat "$status")" != 0 ]; then
        tail -n 20 "$LOG" >&2
        fail "pip failed; the whole log is in $LOG"
    fi
}

choose_python
make_venv
: >"$LOG"
say "installing the pinned dependencies (the first time some 600 MB are fetched, which takes minutes)"
pip_install -r requirements-build.txt
pip_install --no-build-isolation -r requirements-dev.txt
pip_install --no-build-isolation --editable .
"$VENV/bin/python" -m pip check >>"$LOG" 2>&1 || {
    tail -n 20 "$LOG" >&2
    fail "the pins in requirements*.txt do not fit together"
}
say "$VENV is ready"
