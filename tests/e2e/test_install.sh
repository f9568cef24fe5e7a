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

cat >"$scratch/sum.c" <<'C'
#include <banyan/banyan.h>
#include <stdio.h>

int main(void) {
  struct banyan_comm *comm;
  float x = 3;
  if (banyan_comm_create(NULL, &comm) || banyan_allreduce(comm, &x, &x, 1, BANYAN_FLOAT32, BANYAN_SUM)) {
    fprintf(stderr, "%s\n", banyan_error_text());
    return 1;
  }
  printf("%s %g of %d\n", banyan_version(), x, banyan_comm_size(comm));
  banyan_comm_destroy(comm);
  return 0;
}
C
export PKG_CONFIG_PATH=${library%/*}/pkgconfig
flags=$(pkg-config --define-variable=prefix="$root" --cflags --libs banyan)
# shellcheck disable=SC2086 # The flags are separate words.
wants 0 "${CC:-cc}" -Wall -Werror -o "$scratch/sum" "$scratch/sum.c" $flags
export LD_LIBRARY_PATH=${library%/*}
wants 0 "$scratch/sum"
shows '^[0-9.]+ 3 of 1$' out
wants 0 "$root/bin/banyan" run -n 2 -- "$scratch/sum"
shows ' 6 of 2$' out

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
cat >"$scratch/sum.py" <<'PYTHON'
import importlib.metadata, sys
import banyan, numpy
from banyan import library
assert library.path().startswith(sys.argv[1]), library.path()
assert importlib.metadata.version("banyan-allreduce") == banyan.__version__
with banyan.Communicator() as comm:
    print(comm.allreduce(numpy.ones(1) * 3)[0], "of", comm.size)
PYTHON
export PYTHONPATH=${place%/banyan}
wants 0 "$root/bin/banyan" run -n 2 -- "$python" "$scratch/sum.py" "$(realpath "$root")"
shows '6.0 of 2$' out
