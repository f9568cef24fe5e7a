"""Markdown tables of the measurements of compare.py, with the goals for Banyan."""

from cell import best
from placement import FAR

PEERS = {"openmpi": "Open MPI", "mpich": "MPICH", "gloo": "Gloo"}
K, M = 1 << 10, 1 << 20


def goal(ranks, transport, size, registered):
    """Returns the goal: the greatest acceptable ratio of Banyan's time to the best peer's."""
    if ranks == 4:
        return 0.85 if size >= 64 * K else 1.0
    if transport == "tcp":
        return 0.75 if size >= 64 * M else 0.85 if size >= 64 * K else 1.0
    if registered and size == 16 * M:
        return 0.45
    return {8: 1.1, 64 * K: 0.7, 16 * M: 0.75}.get(size, 1.0)


def size_name(size):
    for unit, scale in (("MiB", M), ("KiB", K)):
        if size >= scale and size % scale == 0:
            return f"{size // scale} {unit}"
    return f"{size} B"


def number(value):
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def timing(figure):
    """Returns `12.3 ±4 % (ring)`: the median and, if it is relevant, half the range over the rounds."""
    if not figure:
        return "-"
    spread = round(100 * figure.spread)
    name = f" ({figure.variant.algorithm})" if figure.variant.impl in PEERS else ""
    return number(figure.median) + (f" ±{spread} %" if spread >= 3 else "") + name


def ratio(mine, fastest, wanted):
    if not mine or not fastest:
        return "-"
    value = mine.ratio(fastest)
    verdict = "" if value <= wanted else " **missed**"
    return f"{value:.3g} (≤ {wanted:g}){verdict}"


def row(cell, size):
    figures, near = cell.row(size)
    peers = [best(figures, impl) for impl in PEERS]
    fastest = min((figure for figure in peers if figure), key=lambda figure: figure.median, default=None)
    ordinary, registered = figures.get("banyan ordinary"), figures.get("banyan registered")
    columns = [size_name(size) + ("" if near else " (far)"), *map(timing, peers), timing(ordinary),
               ratio(ordinary, fastest, goal(cell.ranks, cell.transport, size, False))]
    if cell.transport == "shm":
        columns += [timing(registered), ratio(registered, fastest, goal(cell.ranks, cell.transport, size, True))]
    return columns


def line(columns):
    return "| " + " | ".join(columns) + " |"


def table(cell, about):
    where = "shared memory" if cell.transport == "shm" else f"TCP loopback, {about['congestion_control']}"
    heading = ["size", *PEERS.values(), "Banyan", "ratio (goal)"]
    if cell.transport == "shm":
        heading += ["Banyan, registered", "ratio (goal)"]
    lines = [f"### {cell.ranks} ranks on {min(cell.ranks, about['cores'])} cores, {where}", "", line(heading),
             "|" + " --- |" + " ---: |" * (len(heading) - 1)]
    lines += [line(row(cell, size)) for size in cell.sizes]
    if cell.failed:
        lines += ["", "Failed: " + "; ".join(f"{key}, {trouble}" for key, trouble in cell.failed.items()) + "."]
    return "\n".join(lines)


def document(cells, about):
    buffers = "in place" if about["in_place"] else "separate send and receive buffers"
    beyond = ", also settings beyond the algorithm" if about["tuned"] else ""
    lines = [
        f"AllReduce, float32 sum, {buffers}: microseconds a call, median of {about['rounds']} rounds; in brackets the "
        f"best algorithm of each peer{beyond}. Ratio: Banyan's time to the best peer's, median of the rounds' ratios.",
        "",
        f"{about['cpu']}, {about['cores']} cores, Linux {about['kernel']}, {about['date']}, commit {about['commit']}; "
        f"pinned, priority {about['realtime']}; congestion control {about['congestion_control']}"
        f"{' in a network namespace of its own' if about['namespace'] == 'own' else ''}, tcp_rmem {about['tcp_rmem']}, "
        f"tcp_wmem {about['tcp_wmem']}; Open MPI {about['openmpi']}, MPICH {about['mpich']}, Gloo {about['gloo']}; "
        f"load before: {about['load_before']:.1f}; the run took {about.get('seconds', 0)} s.",
    ]
    least, greatest = about["core_latency_ns"]
    if least and greatest > FAR * least:
        lines += ["", f"A cache line took {least:.0f} to {greatest:.0f} ns from core to core, as the machine's host "
                  "moved its cores. Starts waited for the former. Rows marked `far` hold only figures of the latter."]
    for cell in cells:
        lines += ["", table(cell, about)]
    return "\n".join(lines)
