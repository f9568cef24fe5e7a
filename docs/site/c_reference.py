"""Reads the public headers, and writes a page of the reference for each.

The layout of clang-format is relied on: a comment stands above what it describes, up to the next comment or empty line,
and a member's comment above it or behind it. Sphinx parses the declarations, and refuses what is not C.
"""
import re
from pathlib import Path

TOP = re.compile(r"/\*(?P<comment>.*?)\*/|(?P<gap>\n\s*\n)|#define (?P<macro>BANYAN_\w+)(?:\\\n|[^\n])*|#[^\n]*"
                 r"|(?P<kind>struct|enum) (?P<tag>\w+) \{\n(?P<body>.*?)^\};|static inline (?P<inline>.*?) \{\n(?P<code>.*?)^\}"
                 r"|struct (?P<opaque>\w+);|(?P<function>\w[^;]*);", re.DOTALL | re.MULTILINE)
MEMBER = re.compile(r"(?P<alone>^ *)?/\*(?P<comment>.*?)\*/|(?P<member>[A-Za-z][^;/]*?);|(?P<value>BANYAN_\w+ = \d+)", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"(`[^`]+`|\b(?:BANYAN|banyan)_\w*\*?(?:\(\))?|<banyan/\w+\.h>|docs/[\w-]+\.md|\*[a-z]\w*)")


class Names:
    """What the headers declare, by kind, to link to it."""

    def __init__(self, folder: Path) -> None:
        self.headers = {path.stem: path.read_text() for path in sorted(folder.glob("*.h")) if path.stem != "banyan"}
        whole = "\n".join(self.headers.values())
        self.roles = {name: "c:struct" for name in re.findall(r"^struct (\w+)(?:;| \{)", whole, re.MULTILINE)}
        self.roles |= {name: "c:enum" for name in re.findall(r"^enum (\w+) \{", whole, re.MULTILINE)}
        self.roles |= {name: "c:func" for name in re.findall(r"^(?:BANYAN_API|static inline)[^;{]*?\b(banyan_\w+)\(", whole, re.MULTILINE)}
        self.roles |= {name: "c:func" for name in re.findall(r"^(banyan_\w+)\(", whole, re.MULTILINE)}

        self.enums = {name: enum for enum, body in re.findall(r"^enum (\w+) \{(.*?)^\}", whole, re.DOTALL | re.MULTILINE)
                      for name in re.findall(r"^  (BANYAN_\w+) = \d", body, re.MULTILINE)}

    def link(self, code: str) -> str:
        name = code.strip("`<>").removesuffix("()")
        if name in self.enums:
            return f":c:enumerator:`{name} <{self.enums[name]}.{name}>`"
        if name in self.roles:
            return f":{self.roles[name]}:`{name}`"
        if code.startswith("<banyan/") and Path(name).stem in self.headers:
            return f":doc:`/reference/{Path(name).stem}`"
        if code.startswith("docs/"):
            return f":doc:`/{code.removesuffix('.md')}`"
        return f"``{code.strip('`')}``"

    def inline(self, text: str) -> str:
        parts = CODE.split(text)
        return "".join(self.link(part) + "\\ " if i % 2 else re.sub(r"([*_|`\\])", r"\\\1", part) for i, part in enumerate(parts))

    def rst(self, text: str) -> str:
        """A comment or docstring as reStructuredText: paragraphs, lists with "-", indented code, and indented or plain
        lists of names with what they mean."""
        out = []
        for block in re.findall(r"(?:^- .*\n(?:  +\S.*\n)*)+|(?:^ +\S.*\n)+(?:\s*\n(?: {4,}\S.*\n)+)*|(?:^[^ \n].*\n(?:^ {8}.*\n)*)+", text + "\n", re.MULTILINE):
            margin = len(block) - len(block.lstrip())
            lines = re.sub(rf"^ {{{margin}}}", "", block.rstrip(), flags=re.MULTILINE)
            items = re.split(r"\n(?=\S)", lines)
            rows = [re.fullmatch(r"(\S+(?: \S+)?) {2,}((?:(?!\S {3,}\S).)+)" if margin else r"([a-z_]+(?:, [a-z_]+)*): (.*)", item, re.DOTALL) for item in items]
            if all(rows):
                out.append("\n".join(f"{self.inline(row[1])}\n   {self.inline(' '.join(row[2].split()))}\n" for row in rows))
            elif margin:
                out.append((".. code-block:: c" if re.search(r";$", lines, re.MULTILINE) else "::") + "\n\n" + re.sub("^", "   ", lines, flags=re.MULTILINE))
            else:
                out.append(self.inline(lines))
        return "\n\n".join(out)


def clean(comment: str) -> str:
    return re.sub(r"^ *\* ?|^ ", "", comment.rstrip(), flags=re.MULTILINE)


def directive(kind: str, signatures: list, body: str = "") -> str:
    shift = "\n" + " " * (len(kind) + 8)
    return f".. c:{kind}:: {shift.join(signatures)}\n\n" + re.sub(r"^(?=.)", "   ", body, flags=re.MULTILINE) + "\n\n"


def members(body: str, names: Names) -> str:
    out, above = [], ""

    def describe(comment):
        if out and not out[-1][2]:
            out[-1][2] = comment

    for match in MEMBER.finditer(body):
        if match["comment"] is not None:
            text = re.sub(r"\s+", " ", clean(match["comment"]))
            if match["alone"] is None:
                describe(text)
            else:
                above = text
            continue
        if match["value"]:
            kind, signatures = "enumerator", [match["value"]]
        else:
            declared = " ".join(match["member"].split())
            base, first, *more = [declared, ""] if "(" in declared else [*re.match(r"(.*?\b)(\w+(?:\[.*\])?(?:, \w+)*)$", declared).groups()]
            signatures = [base + name for name in first.split(", ")]
            kind = "member"
        out.append([kind, signatures, ""])
        if above:
            out[-1][2] = above
            above = ""
    return "".join(directive(kind, signatures, names.inline(text)) for kind, signatures, text in out)


def page(name: str, names: Names, seen: set) -> str:
    text = re.sub(r'#ifdef __cplusplus\n(extern "C" \{|\})\n#endif\n', "", names.headers[name])
    title = f"banyan/{name}.h"
    out, comment, group = [f"{title}\n{'=' * len(title)}\n\n"], None, []

    def flush():
        """Writes the functions that a comment describes together."""
        nonlocal comment, group
        if group:
            out.append(directive("function", group, names.rst(comment or "")))
            comment, group = None, []

    for match in TOP.finditer(text):
        if match["comment"] is not None or match["gap"]:
            flush()
            if comment:
                heading = re.fullmatch(r"-+ (.*)", comment)
                out.append(f"{heading[1].capitalize()}\n{'-' * 80}\n\n" if heading else names.rst(comment) + "\n\n")
            comment = clean(match["comment"]) if match["comment"] is not None else None
        elif match["function"]:
            group.append(" ".join(re.sub(r"BANYAN_(API|CHECK)", "", match["function"]).split()))
        elif match["inline"]:
            flush()
            called = re.search(r"return (banyan_\w+)\(", match["code"])
            body = names.rst(comment) if comment else f"A short form of {names.link(called[1])}, inline."
            out.append(directive("function", [" ".join(match["inline"].split())], body))
            comment = None
        elif match["tag"] or match["opaque"] or match["macro"]:
            tag = match["tag"] or match["opaque"] or match["macro"]
            if tag in seen or re.fullmatch(r"BANYAN_(API|CHECK|\w+_H)", tag):
                continue
            seen.add(tag)
            kind = "macro" if match["macro"] else match["kind"] or "struct"
            # A macro's comment describes the functions below it, too.
            body = "" if kind == "macro" and comment and "`out`" in comment else names.rst(comment or "")
            out.append(directive(kind, [tag], body + "\n\n" + members(match["body"] or "", names)))
            comment = comment if kind == "macro" and not body else None
    flush()
    return "".join(out)


def write(folder: Path, names: Names) -> None:
    seen: set = set()
    rows = []
    for name, text in names.headers.items():
        (folder / f"{name}.rst").write_text(page(name, names, seen))
        rows.append(f":doc:`banyan/{name}.h <{name}>`\n   {names.inline(' '.join(clean(text[2:]).split()).partition('. ')[0])}.\n")
    title = "C reference\n===========\n\n``#include <banyan/banyan.h>`` includes all of these headers.\n\n"
    (folder / "c.rst").write_text(title + "\n".join(rows) + "\n.. toctree::\n   :hidden:\n\n   " + "\n   ".join(names.headers) + "\n")
