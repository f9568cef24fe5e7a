#!/usr/bin/env python3
"""Draws the logs of examples: the loss and the throughput over the time of training.

    python3 plot.py --unit bytes out.svg "DDP, Banyan=ddp-banyan.csv" "DDP, Gloo=ddp-gloo.csv"

It needs matplotlib (apt-get install python3-matplotlib). The drawing follows the reader's light or dark background.
"""
import argparse
import csv

import matplotlib
import matplotlib.pyplot as plt

# Okabe and Ito's colours, which differ for the colour-blind as well; and the lines differ by their dashes.
LINES = [("#0072b2", "-"), ("#d55e00", "--"), ("#009e73", "-."), ("#cc79a7", ":")]
INK = "#222222"  # text and axes, which are light on a dark background
STYLE = "<style>svg { color: #222 } @media (prefers-color-scheme: dark) { svg { color: #ddd } }</style>"


def read(path):
    """The columns of a log, and the time from its first line on."""
    with open(path, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = {name: [float(row[name]) for row in rows] for name in rows[0]}
    times, done = columns["time"], columns["done"]
    columns["rate"] = [(b - a) / (after - before) for a, b, before, after in zip(done, done[1:], times, times[1:])]
    columns["time"] = [time - times[0] for time in times]
    return columns


def mark_changes(both, columns):
    """Lines where the number of processes has changed, and the numbers above the throughput."""
    for i, (time, count) in enumerate(zip(columns["time"], columns["ranks"])):
        if i and count == columns["ranks"][i - 1]:
            continue
        for axes in both:
            axes.axvline(time, color=INK, linewidth=0.8, linestyle=":")
        text = f"{count:.0f}" if i else f"{count:.0f} process" + "es" * (count > 1)
        both[1].annotate(text, (time, 1), (4, -2), color=INK, va="top", xycoords=("data", "axes fraction"),
                         textcoords="offset points", fontsize=9)


def draw(logs, unit, ranks):
    figure, (loss, rate) = plt.subplots(1, 2, figsize=(8.6, 3.4), layout="constrained")
    for (label, columns), (colour, dashes) in zip(logs.items(), LINES):
        loss.plot(columns["time"], columns["loss"], dashes, color=colour, linewidth=1.6, label=label)
        rate.plot(columns["time"][1:], columns["rate"], dashes, color=colour, linewidth=1.6)
    if ranks:
        mark_changes((loss, rate), next(iter(logs.values())))
    loss.set(ylabel="loss (nats)", xlabel="time (s)")
    rate.set(ylabel=f"throughput ({unit}/s)", xlabel="time (s)", ylim=(0, 1.12 * rate.get_ylim()[1]))
    rate.yaxis.set_major_formatter("{x:,.0f}")
    figure.legend(loc="outside upper center", ncols=len(logs), frameon=False)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unit", default="", help="of the throughput, per second")
    parser.add_argument("--ranks", action="store_true", help="mark where the number of processes has changed")
    parser.add_argument("svg")
    parser.add_argument("logs", nargs="+", metavar="LABEL=FILE", help="up to four")
    options = parser.parse_args()
    matplotlib.rcParams.update({
        "svg.fonttype": "none", "svg.hashsalt": "banyan", "font.family": "sans-serif", "font.size": 10,
        "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "xtick.color": INK, "ytick.color": INK,
        "axes.spines.top": False, "axes.spines.right": False})
    logs = {label: read(path) for label, path in (log.split("=", 1) for log in options.logs)}
    figure = draw(logs, options.unit, options.ranks)
    figure.savefig(options.svg, transparent=True, metadata={"Date": None})
    with open(options.svg, encoding="utf-8") as file:
        text = file.read()
    head, tail = text.replace(INK, "currentColor").split(" <metadata>", 1)
    with open(options.svg, "w", encoding="utf-8") as file:
        file.write(f"{head} {STYLE}\n <metadata>{tail}")


if __name__ == "__main__":
    main()
