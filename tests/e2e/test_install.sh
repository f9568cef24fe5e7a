#!/bin/bash
# Tests that `make install` is complete: a program builds against it with pkg-config alone, and runs.
. "$BANYAN_SOURCE/tests/shell.sh"

needed() { readelf -d "$1" | grep -oE 'NEEDED.*\[.*' || true; }

needed "$BANYAN_BUILD/libbanyan.so" | grep -qE 'lib(asan|tsan|ubsan)' && skip "a sanitizer's library needs a sanitizer's program"

wants 0 meson install -C "$BANYAN_BUILD" --no-rebuild --destdir "$scratch/root"
root=$scratch/root$(meson introspect "$BANYAN_BUILD" --buildoptions | python3 -c '
import json, sys
print(next(o["value"] for o in json.load(sys.stdin) if o["name"] == "prefix"))')
library=$(find "$root" -name libbanyan.so)
[ -n "$library" ] || fail "no libbanyan.so below $root"
readelf -d "$library" | grep -q 'SONAME.*libbanyan\.so\.0\]' || fail "the soname is not libbanyan.so.0"
[ -e "$library.0" ] || fail "no libbanyan.so.0 beside libbanyan.so"
[ -f "$root/include/banyan/banyan.h" ] || fail "no headers"
page=$root/share/man/man1/banyan.1
[ -s "$page" ] || fail "no manual page"
for name in $("$BANYAN" help | sed -n 's/^  \([a-z-]*\) .*/\1/p'); do
  for option in $("$BANYAN" "$name" --help | grep -oE '^  .{4}--[a-z-]+' | grep -oE '\--[a-z-]+'); do
    grep -qF -e "${option//-/\\-}" "$page" || fail "the manual page does not have $option of banyan $name"
  done
done

for name in $("$BANYAN" help | sed -n 's/^  \([a-z-]*\) .*/\1/p' | grep -vE '^(help|version)$'); do
  grep -q "^banyan.-$name .- " "$root/share/man/man1/banyan-$name.1" || fail "there is no manual page of banyan $name"
done

# Completion knows commands, options and choices.
completes() { # WANTED WORD...: the last word is being completed
  (
    compopt() { :; }
    # shellcheck disable=SC1091 # It was just installed.
    . "$root/share/bash-completion/completions/banyan"
    COMP_WORDS=("$BANYAN" "${@:2}") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _banyan
    [ "${COMPREPLY[*]}" = "$1" ] || fail "${*:2} is completed to ${COMPREPLY[*]}, not $1"
  )
}
completes "plan" pl
completes "--quiet" run --q
completes "--keep-going" run --ke
completes "rank0 raw" run -o r
completes "auto shm tcp" run --transport ""
completes "version variables" help v
completes "" run -- --ke

# The services' units contain nothing that systemd does not know.
if [ -d /lib/systemd/system ]; then
  for unit in banyan-agent banyan-manager; do
    file=$root/lib/systemd/system/$unit.service
    grep -q "^ExecStart=/[^ ]*/bin/banyan ${unit#banyan-} " "$file" || fail "$file does not start banyan ${unit#banyan-}"
    sed "s#^ExecStart=[^ ]*#ExecStart=$root/bin/banyan#" "$file" >"$scratch/$unit.service"
    command -v systemd-analyze >/dev/null || continue
    wants 0 systemd-analyze verify --man=no "$scratch/$unit.service"
    [ ! -s "$scratch/err" ] || fail "$unit.service: $(cat "$scratch/err")"
  done
fi

# Only the public interface is visible from outside, and the name of its version.
nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | grep -vE '^banyan_' >"$scratch/out" &&
  fail "exported, and not banyan_: $(tr '\n' ' ' <"$scratch/out")"

# Programs of other projects find the library: with pkg-config, with CMake, and below with pip.
export PKG_CONFIG_PATH=${library%/*}/pkgconfig LD_LIBRARY_PATH=${library%/*}
use=$BANYAN_SOURCE/examples/use
sums() { # COMMAND...
  wants 0 "$@"
  shows '^[0-9.]+: 3 of 1$' out
  wants 0 "$root/bin/banyan" run -n 2 -- "$@"
  shows ': 6 of 2$' out
}
cp -r "$use/c" "$scratch"
PKG_CONFIG_SYSROOT_DIR=$scratch/root CFLAGS="-Wall -Werror" wants 0 make -C "$scratch/c"
sums "$scratch/c/sum"
# Headers may be included where many warnings are errors, in C and C++.
ls "$root/include/banyan" | sed 's,.*,#include <banyan/&>,' >"$scratch/all.c"
for language in c:c11 c++:c++11 c++:c++20; do
  wants 0 c++ -x "${language%:*}" -std="${language#*:}" -Wall -Wextra -pedantic -Werror -I"$root/include" -fsyntax-only "$scratch/all.c"
done
if command -v cmake >/dev/null; then
  wants 0 cmake -S "$use/cpp" -B "$scratch/cpp" -DCMAKE_PREFIX_PATH="$root" -DCMAKE_CXX_FLAGS="-Wall -Werror"
  wants 0 cmake --build "$scratch/cpp"
  sums "$scratch/cpp/sum"
else
  echo "not looked at: a program that is built by CMake, which is not installed"
fi

# What was installed can be removed; another copy, since the rest of this test needs this one.
wants 0 meson install -C "$BANYAN_BUILD" --no-rebuild --destdir "$scratch/other"
[ -n "$(find "$scratch/other" -name banyan.1)" ] || fail "nothing was installed"
wants 0 ninja -C "$BANYAN_BUILD" uninstall
[ -z "$(find "$scratch/other" -type f -o -type l)" ] || fail "not removed: $(find "$scratch/other" -type f -o -type l)"

# The package for Python finds the library below the same prefix, and has the same version.
unset LD_LIBRARY_PATH BANYAN_LIBRARY PYTHONPATH
python=/usr/bin/python3
"$python" -c 'import setuptools, pip, numpy' 2>/dev/null || { echo "not looked at: the package for Python, for want of pip, NumPy or setuptools"; exit 0; }
wants 0 make -C "$BANYAN_SOURCE" install-python PREFIX="$root"
place=$(find "$root" -type d -path '*-packages/banyan')
[ -d "$place" ] || fail "no package for Python below $root"
[ -f "$place/include/banyan/banyan.h" ] || fail "the package has no headers, which banyan.torch is compiled with"
export PYTHONPATH=${place%/banyan}
cat >"$scratch/found.py" <<'PYTHON'
import importlib.metadata, sys
import banyan
from banyan import library
assert library.path().startswith(sys.argv[1]), library.path()
assert importlib.metadata.version("banyan-allreduce") == banyan.__version__
PYTHON
wants 0 "$python" "$scratch/found.py" "$(realpath "$root")"
cp -r "$use/python" "$scratch"
wants 0 "$python" -m pip install -q --no-deps --no-index --no-build-isolation --target "$scratch/site" "$scratch/python"
PYTHONPATH=$PYTHONPATH:$scratch/site sums "$python" -m banyan_sum
