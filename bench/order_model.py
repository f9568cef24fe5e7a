"""Orders of jobs in a fluid model: the classes that a manager should give to jobs, before labs measure it.

Jobs come at random to a Clos network whose uplinks are oversubscribed. Each sends what its plan puts on each link:
rings in the order of the racks, or under the manager trees, which cross an uplink once. Rates follow from which jobs
share which link: fairly in a class, strictly between classes except for a guarantee of the lower ones. Prints, over
many mixes, the average completion time of rings that share fairly divided by that of each order: quartiles, and the
fraction of mixes that lose.

    python3 bench/order_model.py [mixes [kind...]]

Kinds are lab, and even, usual, heavy: clusters whose jobs' lengths differ little, by e, and by e squared.
"""

import itertools
import random
import statistics
import sys

GUARANTEE = 0.05  # fraction of a link, for each class that has something to send
FIRST = 10  # iterations in the highest class
GROWTH = 4
QUEUES = 15


class Job:
    """A job: `at` is in s, `hosts` are pairs of rack and place, and `gradients` are the bytes of an iteration."""

    def __init__(self, at, hosts, gradients, iterations):
        self.at, self.hosts, self.gradients, self.iterations = at, hosts, gradients, iterations
        n = len(hosts)
        racks = {rack for rack, _ in hosts}
        ring = 2 * (n - 1) / n
        self.loads = {}
        for kind, cross in (("ring", ring), ("trees", 1.0)):
            self.loads[kind] = {("host", host): ring for host in hosts}
            if len(racks) > 1:
                self.loads[kind].update({("rack", rack): cross for rack in racks})
        self.all_sent = ring * n * gradients  # bytes of an iteration, of all ranks
        self.left, self.ended = 0.0, None  # iterations

    def done(self):
        return self.iterations - self.left


def mix_of_lab(chance):
    """Makes jobs as mix_of in cluster.py does, with its model sizes."""
    def size(a, b):
        return 4 * (784 * a + a + a * b + b + b * 10 + 10)
    jobs = []
    for at in (0, *sorted(chance.randint(1, 20) for _ in range(2))):
        places = chance.choice(("0123", "01", "23"))
        gradients = size(chance.choice((128, 192, 256)), chance.choice((64, 128, 192, 256)))
        hosts = [(rack, int(place)) for rack in range(2) for place in places]
        jobs.append(Job(at, hosts, gradients, FIRST * chance.randint(3, 5)))
    return jobs, capacities(2, 4, 25e6 / 8 / 1.05, 4), 60e6


def capacities(racks, hosts, nic, oversub):
    links = {("host", (rack, place)): nic for rack in range(racks) for place in range(hosts)}
    links.update({("rack", rack): hosts * nic / oversub for rack in range(racks)})
    return links


def mix_of_cluster(chance, sigma, n=30, racks=8, hosts=4, load=0.7):
    """Makes jobs of 2 to 16 hosts in a block of racks, with log-normal lengths. `load` is about the fraction of the
    time in which uplinks are busy with rings. Hosts are shared, as by users with GPUs of their own."""
    nic, jobs, at = 1e9 / 8, [], 0.0
    for _ in range(n):
        wide = chance.choice((1, 2, 2, 4))
        deep = chance.choice((2, 4)) if wide == 1 else chance.choice((1, 2, 4))
        first = chance.randrange(racks)
        places = chance.sample(range(hosts), deep)
        where = [((first + rack) % racks, place) for rack in range(wide) for place in places]
        length = 60 * chance.lognormvariate(0, sigma)  # seconds alone
        iterations = max(20, round(length / 0.3))
        jobs.append(Job(at, where, length * nic / 2 / iterations, iterations))
        at += chance.expovariate(1) * 60 * 2.2 / racks / load
    return jobs, capacities(racks, hosts, nic, 4), 10e9


# ---- orders: each determines the class of every present job


class Order:
    """An order of jobs. `threshold` is a factor of the usual one. `inside` orders the jobs of a queue: "share",
    "came" (the job that came first goes first), "narrow" (the job with the fewest hosts does), or "short": there
    are no queues, and the job with the least left goes first. With `first` the first iterations have class 0."""

    def __init__(self, inside, threshold=1.0, classes=4, first=True, queues=QUEUES):
        self.kind, self.inside, self.threshold, self.classes, self.first = "trees", inside, threshold, classes, first
        self.queues, self.usual = queues, 0.0

    def marks(self, job):
        """Returns the iterations at which its place may change."""
        least = self.threshold * self.usual / job.all_sent
        return [least * GROWTH ** queue for queue in range(self.queues - 1)] + [float(FIRST) if self.first else 0.0]

    def queue_of(self, job):
        return sum(job.done() >= mark - 1e-9 for mark in self.marks(job)[:-1])

    def is_early(self, job):
        return self.first and job.done() < FIRST - 1e-9

    def key_of(self, job):
        return {"share": (self.queue_of(job),),
                "came": (self.queue_of(job), job.at),
                "narrow": (self.queue_of(job), len(job.hosts), job.at),
                "short": (job.left * job.gradients,)}[self.inside]

    def sort(self, jobs):
        """Returns the class of each job, as manager_links.c computes it. It makes no difference here that a job
        without others behind it falls with its queue."""
        classes = {job: 0 for job in jobs if self.is_early(job)}
        rest = sorted((job for job in jobs if job not in classes), key=self.key_of)
        above = {}
        for _, group in itertools.groupby(rest, key=self.key_of):
            group = list(group)
            for job in group:
                over = max(above.get(link, 0) for link in job.loads[self.kind])
                classes[job] = min(self.classes - 1, 1 + over)
            for job in group:
                for link in job.loads[self.kind]:
                    above[link] = max(above.get(link, 0), classes[job])
        return classes


class Announced(Order):
    """A part of the jobs announce their length: they are in the queue of what they have left, and before the others
    of it."""

    def __init__(self, part):
        super().__init__("share")
        self.part = part

    def key_of(self, job):
        if random.Random(job.at + job.gradients).random() >= self.part:
            return (self.queue_of(job), 1, 0)
        limit, left = self.threshold * self.usual, job.left * job.all_sent
        return (sum(left >= limit * GROWTH ** queue for queue in range(self.queues - 1)), 0, left / len(job.hosts))


class Fair(Order):
    """There are no classes."""

    def __init__(self, kind):
        super().__init__("share")
        self.kind = kind

    def sort(self, jobs):
        return dict.fromkeys(jobs, 0)


def fill(active, there, kind, rates, left):
    """Shares the capacity of links among jobs of one class, evenly in bits. The job with the least rate gets all it
    can use."""
    active = list(active)
    while active:
        level = {link: room / max(1, sum(link in job.loads[kind] for job in active)) for link, room in there.items()}
        best = {job: min(level[link] / load for link, load in job.loads[kind].items()) for job in active}
        job = min(active, key=lambda job: best[job] * max(job.loads[kind].values()))
        rates[job] += best[job]
        active.remove(job)
        for link, load in job.loads[kind].items():
            there[link] = max(0.0, there[link] - best[job] * load)
            left[link] = max(0.0, left[link] - best[job] * load)


def rates_of(jobs, classes, links, kind):
    """Returns the iterations per second of each job, class by class, with the guarantee of the lower ones. What a
    class cannot use, because another link limits it, is distributed again."""
    left, on, rates = dict(links), {}, dict.fromkeys(jobs, 0.0)
    for job in jobs:
        for link in job.loads[kind]:
            on.setdefault(link, set()).add(classes[job])
    for guarantee in (GUARANTEE, 0):
        for class_ in sorted(set(classes.values())):
            there = {link: max(0.0, left[link] - guarantee * links[link] * sum(c > class_ for c in of))
                     for link, of in on.items() if class_ in of}
            fill([job for job in jobs if classes[job] == class_], there, kind, rates, left)
    return {job: max(rate, 1e-9) / job.gradients for job, rate in rates.items()}


def next_change(order, job):
    """Returns the iterations of a job until its place may change, or it ends."""
    done = job.done()
    return min(mark - done for mark in [*order.marks(job), float(job.iterations)] if mark > done + 1e-6)


def average(mix, order):
    jobs, links, order.usual = mix
    for job in jobs:
        job.left, job.ended = float(job.iterations), None
    waiting, here, now = sorted(jobs, key=lambda job: job.at), [], 0.0
    while waiting or here:
        if not here:
            now = max(now, waiting[0].at)
        while waiting and waiting[0].at <= now:
            here.append(waiting.pop(0))
        rates = rates_of(here, order.sort(here), links, order.kind)
        step = min(next_change(order, job) / rates[job] for job in here)
        if order.inside == "short":
            step = min(step, 5.0)
        if waiting:
            step = min(step, waiting[0].at - now)
        now += max(step, 1e-6)
        for job in here:
            job.left -= rates[job] * max(step, 1e-6)
        for job in [job for job in here if job.left < 1e-5]:
            job.ended = now
            here.remove(job)
    return statistics.mean(job.ended - job.at for job in jobs), max(job.ended - job.at for job in jobs)


NONE = float("inf")
ORDERS = {
    "trees, no classes": Fair("trees"),
    "queues, equals inside": Order("share"),
    "queues, who came first": Order("came"),
    "the same, threshold / 16": Order("came", 1 / 16),
    "the same, threshold x 4": Order("came", 4),
    "the same, threshold x 16": Order("came", 16),
    "the same, 8 classes": Order("came", classes=8),
    "3 queues, equals inside": Order("share", queues=3),
    "queues, fewest hosts first": Order("narrow"),
    "one queue, who came first": Order("came", NONE),
    "the same, without class 0": Order("came", NONE, first=False),
    "half of the jobs say their length": Announced(0.5),
    "all say it": Announced(1),
    "shortest remaining, no queues": Order("short"),
}
KINDS = {
    "lab": mix_of_lab,
    "even": lambda chance: mix_of_cluster(chance, 0.3),
    "usual": lambda chance: mix_of_cluster(chance, 1.0),
    "heavy": lambda chance: mix_of_cluster(chance, 2.0),
}


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    for kind in sys.argv[2:] or KINDS:
        gains = {name: [] for name in ORDERS}
        worst = {name: [] for name in ORDERS}
        for seed in range(1, n + 1):
            mix = KINDS[kind](random.Random(seed))
            mean, longest = average(mix, Fair("ring"))
            for name, order in ORDERS.items():
                its_mean, its_longest = average(mix, order)
                gains[name].append(mean / its_mean)
                worst[name].append(longest / its_longest)
        print(f"\n{kind}, {n} mixes | least | quarter | median | three quarters | below 1 | worst job, median")
        for name, values in gains.items():
            low, middle, high = statistics.quantiles(values, n=4)
            lose = sum(value < 0.995 for value in values) / n
            print(f"{name:33} | {min(values):.2f} | {low:.2f} | {middle:.2f} | {high:.2f} | {100 * lose:.0f} % | "
                  f"{statistics.median(worst[name]):.2f}", flush=True)


if __name__ == "__main__":
    main()
