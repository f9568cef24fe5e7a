"""One table for a number of ranks and a transport: which variants are timed again, and the result for each size."""

import statistics
from dataclasses import dataclass

import runner
import variants

FINALISTS = 2  # variants of a peer, at one size
CLOSE = 1.2  # A second finalist is at most this factor slower than the first.
HOPELESS = 5  # A peer that is slower than the fastest peer by this factor is not timed again.
SCREENING = -1  # the number of the round in which everything is tried


@dataclass
class Figure:
    """A variant at one size: microseconds by round, all with the cores near each other, or all far."""

    variant: variants.Variant
    rounds: dict
    timed: bool  # The variant was timed in the rounds, not only tried.

    @property
    def median(self):
        return statistics.median(self.rounds.values())

    @property
    def spread(self):
        """Returns half the range over the rounds, as a fraction of the median."""
        return (max(self.rounds.values()) - min(self.rounds.values())) / 2 / self.median

    def ratio(self, other):
        """Returns the median over the rounds that both were in, because the machine changes between rounds."""
        both = self.rounds.keys() & other.rounds.keys()
        if not both:
            return self.median / other.median
        return statistics.median(self.rounds[number] / other.rounds[number] for number in both)


class Cell:
    def __init__(self, ranks, transport, settings, placement):
        self.ranks, self.transport, self.settings, self.placement = ranks, transport, settings, placement
        self.sizes = sizes = settings["sizes"]
        self.records = []
        self.failed = {}
        self.known = {}  # variants by key
        self.samples = {size: {} for size in sizes}  # {key: {round: (microseconds, near)}}

    def candidates(self):
        quick, tuned, every = (self.settings[name] for name in ("quick", "tuned", "every"))
        for variant in variants.all_variants(self.ranks, self.transport):
            if (variant.quick or not quick) and (tuned or not variant.tuned) and (every or not variant.rare):
                yield variant, [size for size in self.sizes if variant.fits(size, every)]

    def run(self, variant, sizes, budget, number):
        def start():
            return runner.run(variant, sizes, budget, self.settings["in_place"])

        (records, trouble), latency = (start(), 0) if variant.sliced else self.placement.run(start)
        self.known[variant.key] = variant
        if trouble:
            self.failed[variant.key] = trouble
        for record in records:
            record |= {"impl": variant.impl, "algorithm": variant.algorithm, "transport": self.transport,
                       "round": number, "core_latency_ns": latency}
            self.records.append(record)
            if record["wrong"]:
                runner.note(f"WRONG: {variant.key}, {record['bytes']} bytes: {record['wrong']} elements")
            near = self.placement.is_near(latency)
            self.samples[record["bytes"]].setdefault(variant.key, {})[number] = (record["time_us"], near)

    def screen(self):
        runner.note(f"{self.ranks} ranks, {self.transport}: trying every algorithm")
        for variant, sizes in self.candidates():
            if sizes:
                self.run(variant, sizes, 0.1, SCREENING)

    def finalists(self, size):
        """Returns the keys of the finalists, which are chosen for near and for far cores separately if the trials
        met both."""
        return {key for near in (True, False) for key in self.fastest(size, near)}

    def fastest(self, size, near):
        peers = {}
        for key, rounds in self.samples[size].items():
            elapsed, was_near = rounds.get(SCREENING, (None, None))
            if was_near == near and key not in self.failed:
                peers.setdefault(self.known[key].impl, []).append((elapsed, key))
        least = min((min(tried)[0] for tried in peers.values()), default=0)
        for tried in map(sorted, peers.values()):
            if tried[0][0] <= least * HOPELESS:
                yield from (key for elapsed, key in tried[:FINALISTS] if elapsed <= tried[0][0] * CLOSE)

    def entries(self):
        """Returns (variant, its sizes) for a round. Banyan is included for every size."""
        chosen = {}
        for size in self.sizes:
            for key in self.finalists(size):
                chosen.setdefault(key, (self.known[key], []))[1].append(size)
        banyan = [(variant, self.sizes) for variant in variants.banyan_variants(self.ranks, self.transport)
                  if variant.key not in self.failed]
        return list(chosen.values()) + banyan

    def round(self, number):
        entries = self.entries()
        for variant, sizes in entries if number % 2 == 0 else entries[::-1]:
            self.run(variant, sizes, 0.2 if self.settings["quick"] else 0.5, number)

    def figures(self, size, near):
        """Returns by variant what was measured while the cores were near each other, or while they were far."""
        found = {}
        for key, samples in self.samples[size].items():
            sliced = self.known[key].sliced
            rounds = {number: time for number, (time, was_near) in samples.items() if sliced or was_near == near}
            timed = {number: time for number, time in rounds.items() if number != SCREENING}
            if rounds:
                found[key] = Figure(self.known[key], timed or rounds, bool(timed))
        return found

    def row(self, size):
        """Returns the figures to show, and whether the cores were near: only like is compared with like."""
        near, far = self.figures(size, True), self.figures(size, False)

        def worth(figures):
            timed = [key for key, figure in figures.items() if figure.timed]
            return sum(key.startswith("banyan ") for key in timed), len(timed), len(figures)

        return (near, True) if worth(near) >= worth(far) else (far, False)


def best(figures, impl):
    """Returns the fastest variant of a peer that was timed in the rounds; otherwise that of the trials; or None."""
    mine = [figure for figure in figures.values() if figure.variant.impl == impl]
    timed = [figure for figure in mine if figure.timed]
    return min(timed or mine, key=lambda figure: figure.median, default=None)
