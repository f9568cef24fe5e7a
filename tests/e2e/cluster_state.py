#!/usr/bin/env python3
"""cluster_state [--racks N] [--hosts N] [--jobs N] [--time S] [--seed N]: prints an invented state of a manager:
racks of hosts below two spines, and jobs with trees, helpers and a history. The same arguments print the same
state."""
import argparse
import json
import random

RATE = 10e9
NAMES = ["resnet50", "llama-8b", "whisper", "bert-large", "gnn-papers", "vit-h14", "dlrm", "mixtral", "t5-xl", "unet3d"]
STATES = ["running", "running", "running", "running", "running", "switching", "waiting", "left"]


def topology(racks, hosts):
    nodes, links = [], []
    for r in range(racks):
        for h in range(hosts):
            nodes.append({"name": f"r{r}h{h}", "group": f"rack {r}", "helps": h == hosts - 1})
    for r in range(racks):
        nodes.append({"name": f"leaf{r}", "kind": "switch", "group": f"rack {r}"})
        for h in range(hosts):
            links.append({"a": f"r{r}h{h}", "b": f"leaf{r}", "capacity": RATE, "delay": 5e-6})
    for s in range(2 if racks > 1 else 0):
        nodes.append({"name": f"spine{s}", "kind": "switch"})
        for r in range(racks):
            links.append({"a": f"leaf{r}", "b": f"spine{s}", "capacity": RATE * max(1, hosts // 4), "delay": 5e-6})
    return {"format": "banyan-topology 1", "name": f"{racks} racks of {hosts}", "nodes": nodes, "links": links}


def tree(rng, members, helper, share):
    """Makes a tree of the hosts in random order, each below one of the three before it, or below a helper."""
    order = rng.sample(members, len(members))
    up = {}
    for i, name in enumerate(order[1:], 1):
        up[name] = order[max(0, i - rng.randint(1, 3))]
    root = order[0]
    if helper:
        up[root] = helper
        root = helper
    return {"share": share, "root": root, "up": up, "rate": share * 0.8 * RATE}


def plan(rng, members, helper):
    n = rng.randint(1, 3)
    cuts = [rng.random() + 0.2 for _ in range(n)]
    vertices = {name: {"kind": "rank", "rank": i} for i, name in enumerate(members)}
    if helper:
        vertices[helper] = {"kind": "helper"}
    trees = [tree(rng, members, helper if i == 0 else None, cut / sum(cuts)) for i, cut in enumerate(cuts)]
    return {"format": "banyan-plan 1", "name": "planned", "ranks": len(members), "vertices": vertices, "trees": trees}


def put_through(one, index, net):
    """Replaces the first tree of a job's plan by one over all leaves and a spine to a server on its first host. Gives it
    cells there."""
    plan, members = one["plan"]["plan"], list(dict.fromkeys(one["hosts"]))
    leaf_of = {link["a"]: link["b"] for link in net["links"] if link["b"].startswith("leaf")}
    leaves, server = sorted({leaf_of[name] for name in members}), f"{members[0]}/0"
    root = "spine0" if len(leaves) > 1 else leaves[0]
    up = {name: leaf_of[name] for name in members[1:]}
    up.update({leaf: root for leaf in leaves if leaf != root})
    up.update({members[0]: server, root: server})
    plan["vertices"].update({name: {"kind": "switch"} for name in {*leaves, root}})
    plan["vertices"][server] = {"kind": "server"}
    plan["trees"][0] = {"share": plan["trees"][0]["share"], "root": server, "up": up, "rate": 0.6 * RATE}
    if root not in leaves:
        plan["trees"][0]["forwards"] = [root]
    one["cells"] = [{"switch": name, "slots": 512 - 100 * index, "requested": 512, "bytes": (512 - 100 * index) * 3432}
                    for name in leaves]


def switches_of(net, jobs):
    """All switches aggregate; what they have given is what the jobs' cells say."""
    rows = []
    for node in net["nodes"]:
        if node.get("kind") != "switch":
            continue
        owners = [{"job": job["id"], "name": job["name"], **{key: value for key, value in cells.items() if key != "switch"}}
                  for job in jobs for cells in job["cells"] if cells["switch"] == node["name"]]
        rows.append({"name": node["name"], "memory": 4096 * 3432, "given": sum(owner["bytes"] for owner in owners),
                     "jobs": owners})
    return rows


def history(rng, now, since):
    rows, before = [], 0
    for number in range(rng.randint(1, 7)):
        after = before * 1.1 + rng.random() * 2e9 + 1e9
        why = rng.choice(["new job", "a link has less", "a job ended", "interval", "helper gone"]) if number else "first"
        rows.append({"number": number + 1, "time": since + (now - since) * number / 8, "why": why,
                     "before": before, "after": after})
        before = after
    return rows


def job(rng, i, hosts, helpers, now):
    size = min(len(hosts), rng.choice([4, 4, 6, 8, 8, 16, 32]))
    members = rng.sample(hosts, size)
    helper = rng.choice(helpers) if helpers and rng.random() < 0.4 else None
    if helper in members:
        helper = None
    state = STATES[i % len(STATES)] if i else "running"
    since = now - rng.random() * 90000
    rows = [] if state == "waiting" else history(rng, now, since)
    pace = 0.02 + rng.random()
    throughput = rows[-1]["after"] if rows else 0
    return {"id": f"{rng.getrandbits(128):032x}", "name": f"{NAMES[i % len(NAMES)]}-{i}", "size": size,
            "hosts": members, "state": state, "class": rng.randint(0, 3), "iterations": rng.randint(0, 200000),
            "expected": 250000 if i == 1 else None, "seconds_left": 12345 if i == 1 else None,
            "iteration_time": 0 if state == "waiting" else pace * (1 + 0.1 * random.Random(now + i).random()),
            "sent": rng.randint(0, 1 << 44), "input_rate": throughput * rng.random(), "since": since,
            "plan": {"number": len(rows), "throughput": throughput, "made": rows[-1]["time"],
                     "plan": plan(rng, members, helper)} if rows else None,
            "cells": [], "history": rows}, helper


def make(racks, hosts, jobs, now, seed):
    rng = random.Random(seed)
    net = topology(racks, hosts)
    names = [n["name"] for n in net["nodes"] if n.get("kind") != "switch"]
    helpers = [n["name"] for n in net["nodes"] if n.get("helps")]
    made = [job(rng, i, names, helpers, now) for i in range(jobs)]
    for index, (one, _) in enumerate(made[:3:2]):
        if one["plan"] and racks > 1:
            put_through(one, index, net)
    helping = {}
    for one, helper in made:
        if helper:
            helping.setdefault(helper, []).append(one["id"])
    live = random.Random(seed + int(now))
    links, use = [], {}
    for link in net["links"]:
        for a, b in (link["a"], link["b"]), (link["b"], link["a"]):
            ours = live.random() ** 2 * link["capacity"] * (0.9 if jobs else 0)
            others = max(0, live.random() - 0.7) * link["capacity"] * 0.3
            links.append({"from": a, "to": b, "capacity": link["capacity"], "ours": ours, "others": others})
            use[a, b] = (ours, others)
    rows = []
    for name in names:
        leaf = "leaf" + name[1:name.index("h")]
        (out, other_out), (back, other_back) = use[name, leaf], use[leaf, name]
        rows.append({"name": name, "connected": live.random() > 0.02, "may_help": name in helpers,
                     "helping": helping.get(name, []),
                     "interfaces": [{"name": "eth0", "rate": RATE, "sent": out + other_out,
                                     "received": back + other_back, "ours_sent": out, "ours_received": back}]})
    return {"time": now, "version": "0.1.0", "topology": net, "hosts": rows, "links": links,
            "jobs": [one for one, _ in made], "switches": switches_of(net, [one for one, _ in made]),
            "counters": {"reports": int(now) % 100000 * 7, "refused": 3, "plans": sum(len(j["history"]) for j, _ in made),
                         "plan_switches": 4 * jobs, "planned": 12, "kept": jobs}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--racks", type=int, default=2)
    parser.add_argument("--hosts", type=int, default=4, help="in each rack")
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--time", type=float, default=1800000000)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    print(json.dumps(make(a.racks, a.hosts, a.jobs, a.time, a.seed), separators=(",", ":")))


if __name__ == "__main__":
    main()
