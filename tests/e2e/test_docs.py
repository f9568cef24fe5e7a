#!/usr/bin/env python3
"""test_docs.py PAGE...: runs every code block of these pages, or of all, each page in a folder of its own.
test_docs.py --list: prints the pages that have blocks to run, one a line: README.md, docs/ and READMEs of other folders.

A block that is indented by four spaces, or fenced without a language, is for a shell. Fenced blocks name their
language: sh, c, python or json. Shell blocks of a document run one after the other in one folder, so that later blocks
find the files of earlier ones. C blocks are compiled with -Wall -Wextra -Werror; a block without main() is the body of
a function that has some variables (BODY). Python blocks run in two ranks. JSON is parsed.

A block that cannot run has a comment in the line before it, or in the line before an empty line:

    <!-- not run: needs two machines -->

A Python block that needs statements before it has the comment <!-- with: STATEMENTS -->.
"""
import importlib
import importlib.util
import json
import multiprocessing
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "bindings/python"), str(SOURCE / "tests/python")]
import ranks  # noqa: E402

BUILD, BANYAN = Path(os.environ.get("BANYAN_BUILD", SOURCE / "build")), os.environ.get("BANYAN", "")
# The limits are seconds for a block, of which the first one of PyTorch may compile its extension, and for all blocks.
# The latter is less than Meson's limit for a page, so that a block that takes too long is named.
LIMIT, LIMIT_OF_ALL = 600, 840
SLOWER = 1 if os.environ.get("BANYAN_SANITIZED", "none") == "none" else 4
UNTIL = time.monotonic() + LIMIT_OF_ALL * SLOWER
LANGUAGES = {"": "sh", "sh": "sh", "c": "c", "python": "python", "json": "json"}
COMMENT = re.compile(r"<!-- (not run|with): (.*) -->$")
LIST = re.compile(r"\s*([-*+]|\d+\.) ")
BODY = """#include <banyan/banyan.h>
#include <stdio.h>
#include <stdlib.h>

static void check(enum banyan_status status) {
  if (status != BANYAN_OK) exit(1);
}

void block(struct banyan_comm *comm, struct banyan_call call, uint64_t iteration, float *g, size_t n, size_t words,
           int32_t *numbers, float *gradients, float *table, float *squares, size_t bytes);
void block(struct banyan_comm *comm, struct banyan_call call, uint64_t iteration, float *g, size_t n, size_t words,
           int32_t *numbers, float *gradients, float *table, float *squares, size_t bytes) {
  (void)comm, (void)call, (void)iteration, (void)g, (void)n, (void)words;
  (void)numbers, (void)gradients, (void)table, (void)squares, (void)bytes, (void)check;
%s
}
"""


class Failed(Exception):
    pass


@dataclass
class Block:
    place: str  # docs/guide.md:12
    language: str
    text: str
    comments: dict  # "not run" or "with", and the text of the comment


def fenced(lines, at):
    """Returns the block that begins at this line and the line at which it ends, or None."""
    if not lines[at].startswith("```"):
        return None
    end = at + 1
    while end < len(lines) and not lines[end].startswith("```"):
        end += 1
    return lines[at][3:].strip().split(" ")[0], lines[at + 1:end], end + 1


def indented(lines, at, in_list):
    if in_list or not lines[at].startswith("    ") or (at and lines[at - 1].strip()):
        return None
    end = at
    while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
        end += 1
    text = [line[4:] for line in lines[at:end]]
    while not text[-1].strip():
        text.pop()
    return "", text, end


def blocks_of(name, text):
    lines, at, comments, in_list, found = text.split("\n"), 0, {}, False, []
    while at < len(lines):
        block = fenced(lines, at) or indented(lines, at, in_list)
        if block:
            language, body, end = block
            if language not in LANGUAGES:
                raise Failed(f"{name}:{at + 1}: no language {language!r}; there are {', '.join(filter(None, LANGUAGES))}")
            found.append(Block(f"{name}:{at + 1}", LANGUAGES[language], "\n".join(body), comments))
            comments, at = {}, end
            continue
        line = lines[at]
        comment = COMMENT.match(line)
        if comment:
            comments = {**comments, comment[1]: comment[2].strip()}
        elif line.strip():
            if comments:
                raise Failed(f"{name}:{at}: a comment about a block, but no block follows")
            in_list = bool(LIST.match(line)) or (in_list and line.startswith("  "))
        at += 1
    return found


def why_not(block):
    """Returns the reason why a block cannot run on this machine, or ""."""
    if block.language == "python":
        for module in re.findall(r"\b(torch|numpy)\b", block.text + block.comments.get("with", "")):
            if importlib.util.find_spec(module) is None:
                return f"there is no {module}"
    if block.language == "sh" and "sudo " in block.text:
        if os.geteuid() or subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode:
            return "network namespaces may not be made here"
    return ""


def act_as_rank(environment, path):
    """Runs a Python block as `banyan run` would have a rank run it."""
    os.environ.update(environment)
    runpy.run_path(path, run_name="__main__")
    dist = sys.modules.get("torch.distributed")
    if dist and dist.is_initialized():
        dist.barrier()  # rank 0 holds the store, which the other one may still ask


class Folder:
    """A folder for a document's blocks: it has the tree's files, and keeps what the blocks write."""

    def __init__(self, root):
        self.root = root
        for entry in SOURCE.iterdir():
            if not entry.name.startswith(".") and not entry.name.startswith("build"):
                (root / entry.name).symlink_to(entry)
        (root / "build").symlink_to(BUILD)
        tools = root / ".tools"
        tools.mkdir()
        (tools / "banyan").symlink_to(BANYAN)
        (tools / "python3").symlink_to("/usr/bin/python3")  # Debian's Python has the packages.
        if os.geteuid() == 0:
            (tools / "sudo").write_text('#!/bin/sh\nexec "$@"\n')
            (tools / "sudo").chmod(0o755)
        self.environment = {**os.environ, "HOME": str(root), "TMPDIR": str(root),
                            "PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": str(SOURCE / "bindings/python"),
                            "BANYAN_LIBRARY": os.environ["BANYAN_LIBRARY"], "BANYAN_KEYS": str(root / "keys")}

    def run(self, command):
        """Ends all processes that the command has left."""
        with tempfile.TemporaryFile("w+", dir=self.root) as log:
            process = subprocess.Popen(command, cwd=self.root, env=self.environment, stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=subprocess.STDOUT, start_new_session=True)
            limit = min(LIMIT * SLOWER, max(1, UNTIL - time.monotonic()))
            try:
                status = process.wait(limit)
            except subprocess.TimeoutExpired:
                status = f"not done after {limit:.0f} s; all blocks together have {LIMIT_OF_ALL * SLOWER} s"
            finally:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                process.wait()
            log.seek(0)
            if status:
                raise Failed(f"{status if isinstance(status, str) else f'exit code {status}'}\n{log.read()[-3000:]}")

    def run_ranks(self, program):
        """Runs a program of Python on two ranks. PyTorch takes seconds to import, so this process imports it, and ranks are forked
        from it; but banyan.torch is left to the program, since it changes what banyan.elastic does."""
        os.chdir(self.root)
        (self.root / "block.py").write_text(program)
        if "torch" in program:
            importlib.import_module("torch")
        if "banyan.torch" in program:  # compiled in time that no rank waits for
            process = multiprocessing.get_context("fork").Process(target=importlib.import_module, args=("banyan.torch",))
            process.start()
            process.join(LIMIT)
            if process.exitcode != 0:
                process.kill()
                raise Failed("banyan.torch cannot be imported")
        try:
            ranks.run(2, act_as_rank, self.environment, "block.py")
        except AssertionError as error:
            raise Failed(error) from error

    def try_block(self, block):
        if block.language == "json":
            json.loads(block.text)
        elif block.language == "sh":
            self.run(["bash", "-euo", "pipefail", "-c", block.text])
        elif block.language == "python":
            self.run_ranks(block.comments.get("with", "") + "\n" + block.text + "\n")
        else:
            program = block.text if "main(" in block.text else BODY % block.text
            (self.root / "block.c").write_text(program + "\n")
            self.run(["cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I", str(SOURCE / "include"), "block.c", "-o", "block",
                      "-L", str(BUILD), "-lbanyan"] if "main(" in block.text else
                     ["cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I", str(SOURCE / "include"), "-c", "block.c"])


def check_extraction():
    """Checks that no block is overlooked."""
    text = "a\n\n    run me\n\n    more\n\n- item\n\n    of the item\n\nb\n\n```c\nint x;\n```\n<!-- not run: why -->\n\n    no\n"
    found = [(b.language, b.text, b.comments) for b in blocks_of("x", text)]
    wanted = [("sh", "run me\n\nmore", {}), ("c", "int x;", {}), ("sh", "no", {"not run": "why"})]
    assert found == wanted, found


def documents():
    return ["README.md", *sorted(str(p.relative_to(SOURCE)) for p in SOURCE.glob("docs/*.md")),
            "bindings/python/README.md", "examples/README.md", "bench/README.md"]


def has_blocks_to_run(name):
    return any("not run" not in block.comments for block in blocks_of(name, (SOURCE / name).read_text()))


def run_document(name):
    """Returns how many blocks ran and how many did not, and the failures."""
    ran = left = 0
    failures = []
    scratch = Path(tempfile.mkdtemp(prefix="banyan-docs-"))
    try:
        folder = Folder(scratch)
        for block in blocks_of(name, (SOURCE / name).read_text()):
            if "not run" in block.comments:
                left += 1
                continue
            missing = why_not(block)
            if missing:
                print(f"{block.place}: not run here: {missing}", flush=True)
                left += 1
                continue
            ran += 1
            try:
                folder.try_block(block)
            except (Failed, ValueError) as error:
                failures.append(f"{block.place}: {error}\n  in:\n{block.text}")
    except Failed as error:
        failures.append(str(error))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return ran, left, failures


def main():
    check_extraction()
    if sys.argv[1:] == ["--list"]:
        print("\n".join(filter(has_blocks_to_run, documents())))
        return 0
    if os.environ.get("BANYAN_SANITIZED", "none") != "none":
        print("skipped: programs of the documents are built without a sanitizer")
        return 77
    failures, ran, left = [], 0, 0
    for name in sys.argv[1:] or documents():
        n, not_run, failed = run_document(name)
        ran, left = ran + n, left + not_run
        failures += failed
        print(f"{name}: {n} blocks run, {not_run} not", flush=True)
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    print(f"{ran} blocks run, {left} not, {len(failures)} failed")
    return 1 if failures or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
