"""Which files of src/ define and use which global symbols, from the object files of a build folder."""
import collections
import json
import subprocess
from pathlib import Path


def objects(root, build):
    """Object file by source file, relative to src/."""
    for command in json.loads((build / "compile_commands.json").read_text()):
        source = (Path(command["directory"]) / command["file"]).resolve()
        if source.is_relative_to(root / "src"):
            yield source.relative_to(root / "src"), Path(command["directory"]) / command["output"]


def symbols(paths):
    """For each object file the symbols that it defines and those that it refers to."""
    out = subprocess.run(["nm", "-A", "-P", "-g", *paths], text=True, capture_output=True, check=True).stdout
    found = collections.defaultdict(lambda: (set(), set()))
    for line in out.splitlines():
        path, rest = line.split(": ", 1)
        name, kind = rest.split()[:2]
        found[path][kind == "U"].add(name)
    return found


def dependencies(files):
    """For each file the files of its own module that it depends on, each with the symbols by which it does."""
    found = symbols(list(files.values()))
    owners = {name: source for source, path in files.items() for name in found[str(path)][0]}
    graph = {source: collections.defaultdict(set) for source in files}
    for source, path in files.items():
        for name in found[str(path)][1]:
            owner = owners.get(name)
            if owner and owner != source and owner.parent == source.parent:
                graph[source][owner].add(name)
    return graph
