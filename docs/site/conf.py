"""Sphinx's settings for the site. scripts/site runs it on build/site/source, which has links to the tree's folders."""
import ctypes
import os
import re
import sys
from pathlib import Path
from unittest import mock

TREE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(TREE / "bindings/python")]
import c_reference  # noqa: E402

project = "Banyan"
release = re.search(r"version: '([\d.]+)'", (TREE / "meson.build").read_text())[1]
html_title = f"Banyan {release}"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "docs/*/*.md", "bench/README.md", "examples/README.md", "bindings/python/README.md", "reference/*"]
myst_heading_anchors = 4
nitpicky = True
nitpick_ignore = [("c:identifier", name) for name in ("size_t", "uint8_t", "uint32_t", "uint64_t", "int64_t")]
nitpick_ignore_regex = [("py:.*", r".*")]
html_theme = "furo"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_show_sourcelink = html_copy_source = False
html_domain_indices = False
pygments_style, pygments_dark_style = "default", "github-dark"
add_function_parentheses = False

ctypes.CDLL = mock.MagicMock()  # The package is imported without the library.
autodoc_mock_imports = ["banyan.torch.extension", "torch", "numpy", "ray", "lightgbm", "jax"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "inherited-members": "BaseException, RuntimeError, tuple"}

names = c_reference.Names(TREE / "include/banyan")
LINK = re.compile(r"(\[[^]\[]*\])\(([^)\s:#]*)(#[^)\s]*)?\)")
ANCHOR = re.compile(r'<a id="([\w-]+)"></a>')
anchors = {anchor for page in (TREE / "docs").glob("*.md") for anchor in ANCHOR.findall(page.read_text())}


def link(folder, match):
    """A link of a page as the site needs it: headers are pages, folders are not there, and names of pages become titles."""
    text, path, anchor = match[1], match[2], match[3] or ""
    if anchor[1:] in anchors:
        return f"{text}({anchor[1:]})"
    at = (folder / path).resolve() if path else None
    if at and at.is_relative_to(TREE / "include/banyan"):
        return f"{text}(/reference/{at.stem if at.suffix else 'c'}.rst)"
    if at == TREE / "bindings/python/banyan":
        return f"{text}(/reference/python.rst)"
    if at and at.is_dir():
        return text[1:-1]
    return f"[]({path}{anchor})" if text.endswith(".md]") else match[0]


def contents():
    """The sidebar: the pages of docs/README.md, under its headings."""
    _, *parts = re.split(r"^## ", (TREE / "docs/README.md").read_text(), flags=re.MULTILINE)
    for part in parts:
        targets = LINK.findall(LINK.sub(lambda match: link(TREE / "docs", match), part))
        yield part.partition("\n")[0], [os.path.normpath(f"docs/{path}") if path[0] != "/" else path for _, path, _ in targets]


def prepare(app, docname, source):
    if docname.startswith("reference/"):
        return
    folder = (TREE / docname).parent
    parts = re.split(r"(^ *```.*?^ *```$)", source[0], flags=re.MULTILINE | re.DOTALL)
    for i in range(0, len(parts), 2):
        text = LINK.sub(lambda match: link(folder, match), parts[i])
        text = ANCHOR.sub(r"(\1)=\n", text)
        parts[i] = re.sub(r"(?<![`\[])`(banyan_\w+)`(?!`)", lambda match: f"{{c:func}}{match[0]}" if names.roles.get(match[1]) == "c:func" else match[0], text)
    source[0] = "".join(parts)
    if docname == "README":
        source[0] += "\n```{toctree}\n:hidden:\n\ndocs/README\n```\n"
        for caption, pages in contents():
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"
    elif re.fullmatch(r"docs/\w+/README", docname):
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n*\n```\n"


def docstring(app, what, name, obj, options, lines):
    lines[:] = names.rst("\n".join(lines)).split("\n")


def setup(app):
    c_reference.write(Path(app.srcdir) / "reference", names)
    app.connect("source-read", prepare)
    app.connect("autodoc-process-docstring", docstring)
