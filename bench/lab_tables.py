"""Markdown tables of the measurements of lab.py."""

import statistics

from lab_cases import HEADERS

NAMES = {"gloo": "Gloo", "openmpi": "Open MPI"}


def milliseconds(seconds):
    return f"{1e3 * seconds:.0f}"


def figure(records):
    """Returns the median over the rounds, and the least and the greatest call of all rounds."""
    if not records:
        return None
    return {"median": statistics.median(r["seconds"] for r in records), "least": min(r["least"] for r in records),
            "most": max(r["most"] for r in records), "calls": sum(r["calls"] for r in records),
            "key": records[0]["key"]}


def figures(case, records):
    mine = [r for r in records if r["case"] == case.name and r["what"] == "round"]
    keys = list(dict.fromkeys(r["key"] for r in mine))
    return {key: figure([r for r in mine if r["key"] == key]) for key in keys}


def shown(one):
    if not one:
        return "-"
    return f"{milliseconds(one['median'])} ({milliseconds(one['least'])} to {milliseconds(one['most'])})"


def peer(found, impl):
    mine = [one for key, one in found.items() if key.startswith(impl + ",")]
    best = min(mine, key=lambda one: one["median"], default=None)
    return best, shown(best) + (f" {best['key'].split(', ')[1]}" if best else "")


def times(cases, records, size):
    yield "| network | plan | best ring | Gloo | Open MPI | wire limit of the plan | goal | plan / best peer |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for case in cases:
        found = figures(case, records)
        plan, ring = found.get("banyan, plan"), found.get("banyan, ring")
        if not plan:
            continue
        (gloo, gloo_text), (openmpi, openmpi_text) = peer(found, "gloo"), peer(found, "openmpi")
        best = min((one["median"] for one in (gloo, openmpi) if one), default=None)
        most = case.most(size)
        goal = "-" if not most else f"≤ {milliseconds(most)}" + ("" if plan["median"] <= most else " **missed**")
        ratio = f"{plan['median'] / best:.2f}" if best else f"{plan['median'] / ring['median']:.2f} (ring)"
        yield (f"| {case.name} | {shown(plan)} | {shown(ring)} | {gloo_text} | {openmpi_text} | "
               f"{milliseconds(case.least(size))} | {goal} | {ratio} |")


def shares(cases, records, size):
    for case in cases:
        plan = figures(case, records).get("banyan, plan")
        if plan and not case.peers:
            limit = 8 * size / case.bound * HEADERS * case.scale
            yield (f"{case.name}: {100 * limit / plan['median']:.1f} % of the certified bound of "
                   f"{case.bound / 1e6:.1f} Mbit/s (median of {plan['calls']} calls).")


def links(cases, records, size):
    yield "| network | links carrying something | measured / predicted bytes, least to greatest | the fullest link |"
    yield "| --- | ---: | ---: | --- |"
    for case in cases:
        record = next((r for r in records if r["case"] == case.name and r["what"] == "links"), None)
        if not record:
            continue
        loaded = [(link["bytes"] / (case.load[link["from"], link["to"]] * size * HEADERS), link)
                  for link in record["links"] if case.load.get((link["from"], link["to"]))]
        most = max((link for _, link in loaded), key=lambda link: link["bytes"])
        low, high = min(ratio for ratio, _ in loaded), max(ratio for ratio, _ in loaded)
        yield (f"| {case.name} | {len(loaded)} | {low:.3f} to {high:.3f} | {most['from']} to {most['to']}: "
               f"{most['bytes'] / (1 << 20):.1f} MiB, predicted "
               f"{case.load[most['from'], most['to']] * size * HEADERS / (1 << 20):.1f} |")


def document(cases, records, about, size):
    head = (f"{about['cpu']}, {about['cores']} cores, Linux {about['kernel']}, {about['date']}, commit "
            f"{about['commit']}; float32 AllReduce of {size >> 20} MiB, reno; Open MPI {about['openmpi']}, Gloo "
            f"{about['gloo']}; load before: {about['load_before']:.1f}.")
    spread = "Milliseconds: median of the rounds, and in brackets the least and the greatest of all calls."
    return "\n".join([head, "", spread, "", *times(cases, records, size), "", *shares(cases, records, size), "",
                      *links(cases, records, size)])
