#!/usr/bin/env python3
"""scripts/check-layers on small trees with nested modules: an include from a lower sub-module to a higher one of the
same folder is reported by name, and include paths that would let it compile are reported as well."""
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(os.environ["BANYAN_SOURCE"])
TABLE = "layers = [\n  ['base', []],\n  ['net/low', ['base']],\n  ['net/high', ['net/low']],\n]\n"
FILES = {
    "src/base/text.h": "",
    "src/base/text.c": '#include "text.h"\n',
    "src/net/low/socket.h": "",
    "src/net/low/socket.c": '#include "socket.h"\n#include "text.h"\n',
    "src/net/high/stream.h": "",
    "src/net/high/stream.c": '#include "socket.h"\n#include "stream.h"\n',
}
PATHS = {"src/base/text.c": ["src/base"], "src/net/low/socket.c": ["src/base", "src/net/low"],
         "src/net/high/stream.c": ["src/base", "src/net/low", "src/net/high"]}


def check(files, paths):
    """Returns the report of check-layers about a tree of these files, compiled with these include paths; "" if
    there is nothing to report."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in {"src/meson.build": TABLE, **files}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        commands = [{"directory": folder, "file": name, "command": " ".join(["cc", *(f"-I{p}" for p in seen), "-c", name])}
                    for name, seen in paths.items()]
        (root / "compile_commands.json").write_text(json.dumps(commands))
        done = subprocess.run([SOURCE / "scripts/check-layers", "--root", folder, folder], text=True, capture_output=True,
                              timeout=60, check=False)
        assert (done.returncode != 0) == bool(done.stdout), done
        assert not done.stderr, done.stderr
        return done.stdout


def expect(report, *patterns):
    lines = report.splitlines()
    assert len(lines) == len(patterns), report
    for line, pattern in zip(lines, patterns):
        assert re.search(pattern, line), f"'{line}' does not match '{pattern}'"


def test_small_trees():
    expect(check(FILES, PATHS))
    upward = {**FILES, "src/base/text.c": '#include "socket.h"\n', "src/net/low/socket.c": '#include "socket.h"\n',
              "src/net/low/socket.h": ""}
    expect(check(upward, PATHS), r"^src/base: includes headers of net/low, which is on a higher floor",
           r"^src/meson\.build: lists base for net/low, which includes none of its headers",
           r'^src/base/text\.c: includes "socket\.h", a header of net/low, which src/meson\.build does not list for base')
    circle = {**FILES, "src/net/low/socket.c": '#include "stream.h"\n#include "text.h"\n'}
    expect(check(circle, PATHS), r"^src/net/high: is in a circle of modules .*: net/low$",
           r"^src/net/low: is in a circle of modules .*: base, net/high$", r'^src/net/low/socket\.c: includes "stream\.h"')
    order = "layers = [\n  ['net/low', ['base']],\n  ['base', []],\n  ['net/high', ['net/low']],\n]\n"
    expect(check({**FILES, "src/meson.build": order}, PATHS), r"^src/meson\.build: net/low stands before base")
    wide = {**PATHS, "src/net/low/socket.c": ["src/base", "src/net/low", "src/net/high"]}
    expect(check(FILES, wide), r'^src/net/low: finds "stream\.h" of net/high')
    narrow = {**PATHS, "src/net/high/stream.c": ["src/base", "src/net/high"]}
    expect(check(FILES, narrow), r'^src/net/high: does not find "socket\.h" of net/low')
    twice = {**FILES, "src/net/high/text.h": ""}
    assert "has a header of that name too" in check(twice, PATHS)
    unlisted = {**FILES, "src/net/other/other.c": ""}
    expect(check(unlisted, {**PATHS, "src/net/other/other.c": []}), r"^src/net/other: is not in src/meson\.build")
    sideways = {**FILES, "src/sparse/rows.h": "", "src/elastic/grow.c": '#include "rows.h"\n'}
    capabilities = TABLE.replace("]\n", "  ['sparse', []],\n  ['elastic', ['sparse']],\n]\n")
    expect(check({**sideways, "src/meson.build": capabilities}, {**PATHS, "src/elastic/grow.c": ["src/elastic", "src/sparse"]}),
           r"^src/elastic: includes headers of sparse, which is another capability")
    private = {"src/job/job_state.h": "", "src/job/control.h": '#include "job_state.h"\n', "src/job/job.c": '#include "control.h"\n',
               "src/sparse/rows.c": '#include "control.h"\n'}
    owned = TABLE.replace("]\n", "  ['job', []],\n  ['sparse', ['job']],\n]\n")
    expect(check({**FILES, **private, "src/meson.build": owned},
                 {**PATHS, "src/job/job.c": ["src/job"], "src/sparse/rows.c": ["src/sparse", "src/job"]}),
           r"^src/sparse/rows\.c: includes control\.h, and with it job_state\.h, which only files of src/job may include")
    forgotten = {**FILES, "src/net/low/forgotten.c": ""}
    expect(check(forgotten, PATHS), r"^src/net/low/forgotten\.c: .* never compiled")


if __name__ == "__main__":
    test_small_trees()
    sys.exit(0)
