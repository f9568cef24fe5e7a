"""check_svg.py FILE CSS PANELS: whether a drawing of a plan is well-formed, has so many panels, its texts are inside it and
not on each other, and its colours of trees are those of the web page."""
import re
import sys
import xml.etree.ElementTree as xml

SPACE = "{http://www.w3.org/2000/svg}"
SIZE = {"t": 18, "u": 12, "k": 11, "n": 11, "r": 9.5}


def texts(node, x=0.0, y=0.0):
    """Each text with its box; those that are slanted have none."""
    move = re.match(r"translate\(([-\d.]+) ([-\d.]+)\)( rotate)?", node.get("transform", ""))
    if move:
        x, y = x + float(move[1]), y + float(move[2])
    if node.tag == SPACE + "text" and not (move and move[3]):
        classes = node.get("class").split()
        size = SIZE[classes[0]]
        wide = 0.52 * size * len(node.text)
        at = x + float(node.get("x"))
        middle = classes[0] in "nr" and "start" not in node.get("style", "")
        left = at - wide / 2 if middle else at
        yield node.text, left, left + wide, y + float(node.get("y")) - 0.7 * size, y + float(node.get("y"))
    for child in node:
        yield from texts(child, x, y)


def main():
    root = xml.parse(sys.argv[1]).getroot()
    width, height = float(root.get("width")), float(root.get("height"))
    boxes = list(texts(root))
    panels = [text for text, *_ in boxes if re.match(r"tree \d+(, up|, down)?: [\d.e-]+ %", text)]
    assert len(panels) == int(sys.argv[3]), panels
    for text, left, right, top, bottom in boxes:
        assert left >= 0 and right <= width and top >= 0 and bottom <= height, f"{text!r} leaves the drawing: {left} {right} {bottom} {height}"
    for i, (text, left, right, top, bottom) in enumerate(boxes):
        for other, l, r, t, b in boxes[:i]:
            assert left >= r or right <= l or top >= b or bottom <= t, f"{text!r} is on {other!r}"
    style, page = root.find(SPACE + "style").text, open(sys.argv[2], encoding="utf-8").read()
    if "prefers-color-scheme" not in style:
        page = page.partition("prefers-color-scheme: dark")[2]
    for kind in ("tree", "use"):
        for name, value in re.findall(rf"--{kind}-(\d): (#\w+);", page):
            assert re.search(rf"\.{kind[0]}{name}{{stroke:{value}}}", style), f"{kind} {name} has another colour than on the page"


main()
