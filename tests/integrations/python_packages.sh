# shellcheck shell=bash disable=SC2034
# Sourced by tests of Python packages that come from PyPI.

# python_with NAME PACKAGE...: sets `python` to that of an environment with these packages, which is made in the build folder
# once. Skips the test where they cannot be installed.
python_with() {
  local place=$BANYAN_BUILD/integrations-$1
  shift
  python=$place/bin/python
  [ ! -e "$place/installed" ] || return 0
  rm -rf "$place"
  { "${PYTHON:-/usr/bin/python3}" -m venv "$place" && "$place/bin/pip" install -q "$@"; } || {
    echo "skipped: $* cannot be installed: is PyPI reachable?"
    rm -rf "$place"
    exit 77
  }
  touch "$place/installed"
}
