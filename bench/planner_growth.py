#!/usr/bin/env python3
"""Times `banyan plan` on networks of growing size and draws the growth as SVG.

    bench/planner_growth.py build/banyan docs/planner-growth.svg

Each time is the processor time of the whole command, loading and printing included, which has one thread: the
best of three, or of one if that takes more than 2 s. Prints a Markdown table of seconds and of the largest
resident memory.
"""

import math
import os
import subprocess
import sys

FAMILIES = {
    "random, 3 links a host": [(n, f"random:{n}") for n in (16, 64, 250, 1000, 4000)],
    "ring": [(n, f"ring:{n}") for n in (16, 64, 256, 1024, 4096)],
    "torus": [(a * a, f"torus:{a}x{a}") for a in (4, 8, 16, 32)],
    "mesh with NIC limits": [(n, f"mesh:{n},nic=10g") for n in (4, 8, 16, 32, 63)],
    "Clos, 4:1": [(a * a, f"clos:racks={a},hosts={a},nic=100g,oversub=4") for a in (4, 8, 16, 32)],
}
COLOURS = ["#1f77b4", "#7f7f7f", "#2ca02c", "#ff7f0e", "#d62728"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 420, 60, 200, 20, 50
X_RANGE, Y_RANGE = (4, 8192), (0.005, 10)


def run_once(banyan, topology):
    """Returns the seconds of processor time and the MiB of one run."""
    child = subprocess.Popen([banyan, "plan", topology, "--json"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"banyan plan {topology} failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def measure(banyan, topology):
    seconds, memory = run_once(banyan, topology)
    for _ in range(2 if seconds <= 2 else 0):
        seconds = min(seconds, run_once(banyan, topology)[0])
    return seconds, memory


def place(value, bounds, begin, end):
    low, high = (math.log(bound) for bound in bounds)
    return begin + (math.log(value) - low) / (high - low) * (end - begin)


def x_of(hosts):
    return place(hosts, X_RANGE, LEFT, WIDTH - RIGHT)


def y_of(seconds):
    return place(seconds, Y_RANGE, HEIGHT - BOTTOM, TOP)


def text(x, y, words, anchor="middle", colour="#222"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{words}</text>'


def line(x1, y1, x2, y2):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>'


def draw_axes():
    out = []
    for hosts in (4, 16, 64, 256, 1024, 4096):
        out += [line(x_of(hosts), TOP, x_of(hosts), HEIGHT - BOTTOM), text(x_of(hosts), HEIGHT - BOTTOM + 18, hosts)]
    for seconds in (0.01, 0.1, 1, 10):
        y = y_of(seconds)
        out += [line(LEFT, y, WIDTH - RIGHT, y), text(LEFT - 8, y + 4, f"{seconds:g}", "end")]
    out.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, "hosts"))
    out.append(text(LEFT - 8, TOP - 6, "s", "end"))
    return out


def draw(measured):
    box = f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13"'
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" {box}>']
    out += ["<style>@media (prefers-color-scheme:dark){svg{filter:invert(.9) hue-rotate(180deg)}}</style>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', *draw_axes()]
    ends = []
    for colour, (name, points) in zip(COLOURS, measured.items()):
        at = [(x_of(n), y_of(seconds)) for n, seconds, _ in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in at]
        ends.append((y_of(points[-1][1]), name, colour))
    for i, (_, name, colour) in enumerate(sorted(ends)):
        out.append(text(WIDTH - RIGHT + 14, TOP + 20 + 22 * i, name, "start", colour))
    return "\n".join([*out, "</svg>", ""])


def main():
    banyan, picture = sys.argv[1:3]
    measured = {name: [(n, *measure(banyan, topology)) for n, topology in sizes] for name, sizes in FAMILIES.items()}
    print("| network | hosts: seconds | most memory |\n| --- | --- | ---: |")
    for name, points in measured.items():
        cells = ", ".join(f"{n}: {seconds:.2g}" for n, seconds, _ in points)
        print(f"| {name} | {cells} | {max(memory for _, _, memory in points):.0f} MiB |")
    with open(picture, "w", encoding="utf-8") as file:
        file.write(draw(measured))


if __name__ == "__main__":
    main()
