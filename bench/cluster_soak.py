"""Jobs that must not stop, in a lab, while switches, agents, servers, helpers and the manager are killed (kill -9) at
random every two seconds and started again: what the jobs noticed of it, and how many files and how much memory the
processes had at the end.

Started by cluster.sh, which documents the environment. Two jobs run all the time over all racks, and jobs of a few seconds
come and go beside them. The first has trees through switches, the second, which may not use switches, trees with helpers:
so that there are servers and helpers to kill. Ends with 1 if an element was wrong, a job ended, a call took longer than
STALL, a switch's cells still belonged to somebody when all jobs had ended, a process was left over, or nothing of a kind
was killed.
"""

import os
import random
import sys
import threading
import time

from cluster_lab import Lab, children_of, hosts_of, note, sums, wait_until
from process_uses import uses

TOPOLOGY = os.environ.get("SOAK_TOPOLOGY") or "clos:racks=4,hosts=2,nic=100m,oversub=2,adds=all,helpers=4"
SWITCHES = os.environ.get("SWITCHES") or "user"
MANAGER = "--interval 0.5 --replan 5"
SIZE = 256 << 10
PERIOD = 2.0  # seconds between kills
STALL = float(os.environ.get("STALL") or 3.0)  # seconds that a call may take
CALM = 15.0  # seconds at the end, or half of them all, in which nothing is killed, so that everything comes back
ROLES = ("switch", "server", "helper", "agent", "manager")
PAUSE = 0.5  # seconds more than it slept after which this program counts as having stood still, with all others
ENOUGH = 60  # seconds in which something of each role is killed
AWAY = 0.1, {"switch": 3.0, "agent": 3.0, "manager": 10.0}  # seconds until it is started again, at least and at most


class Soak:
    def __init__(self, lab, seconds, seed):
        self.lab, self.chance, self.end = lab, random.Random(seed), time.monotonic() + seconds
        self.kills, self.samples, self.wrong, self.pauses = {}, {}, [], []

    def left(self):
        return self.end - time.monotonic()

    def kill_one(self):
        """Kills a process of a random role, and starts it again after a while. Agents start servers and helpers again
        where the manager asks for them."""
        for role in self.chance.sample(ROLES, len(ROLES)):
            of_agents = role in ("server", "helper")
            nodes = sorted(node for of, node in self.lab.services if of == ("agent" if of_agents else role))
            for node in self.chance.sample(nodes, len(nodes)):
                if not self.lab.kill(role, node):
                    continue
                self.kills[role] = self.kills.get(role, 0) + 1
                if not of_agents:
                    away = self.chance.uniform(AWAY[0], AWAY[1][role])
                    threading.Timer(away, self.lab.start, (role, node)).start()
                return

    def look(self):
        """Notes what the processes of each role use."""
        pids = [(role, self.lab.pid(role, node)) for role, node in list(self.lab.services)]
        pids += [(word, child) for role, pid in pids if role == "agent" and pid for child, word in children_of(pid)]
        for role, pid in pids:
            used = uses(pid) if pid else None
            if used:
                self.samples.setdefault((role, pid), []).append((time.monotonic(), *used))

    def go(self):
        next_kill, next_look = time.monotonic() + PERIOD, 0.0
        calm = min(CALM, self.left() / 2)
        while self.left() > 0 and self.lab.process.poll() is None:
            now = time.monotonic()
            if now >= next_look:
                self.look()
                next_look = now + 5
            if now >= next_kill and self.left() > calm:
                self.kill_one()
                next_kill = now + PERIOD
            self.sleep(0.05)

    def sleep(self, seconds):
        """Sleeps, and notes where that took so much longer that the machine must have run something else only."""
        begin = time.time()
        time.sleep(seconds)
        if time.time() - begin - seconds > PAUSE:
            self.pauses.append((begin + seconds, time.time()))

    def stood_still(self, begin, end):
        """Returns for how many seconds of these it did."""
        return sum(max(0.0, min(end, until) - max(begin, since)) for since, until in self.pauses)

    def check_calls(self, job, calls):
        """Returns the longest call, without the time in which the machine stood still."""
        longest = max(took - self.stood_still(at - took, at) for at, took in calls)
        if longest > STALL:
            self.wrong.append(f"a call of job {job} took {longest:.2f} s")
        return longest

    def check_cells(self):
        """Waits until no cell belongs to a job, by the word of each switch."""
        switches = sorted(node for role, node in self.lab.services if role == "switch")

        def leaked():
            return [switch for switch in switches if self.lab.cells_in_use(switch) != 0]

        try:
            wait_until(lambda: not leaked(), "", 40)
        except TimeoutError:
            self.wrong.append(f"cells of switches {leaked()} are not free")

    def print_uses(self):
        """Prints the use of the longest-lived process of each role, at the quarters of its life."""
        print("\n| | processes | the longest | descriptors | KiB of its own |\n|---|---:|---:|---:|---:|")
        for role in sorted({role for role, _ in self.samples}):
            rows = [samples for (of, _), samples in self.samples.items() if of == role]
            longest = max(rows, key=lambda samples: samples[-1][0] - samples[0][0])
            quarters = [longest[quarter * (len(longest) - 1) // 4] for quarter in range(5)]
            files, memory = (", ".join(str(row[of]) for row in quarters) for of in (1, 2))
            print(f"| {role} | {len(rows)} | {longest[-1][0] - longest[0][0]:.0f} s | {files} | {memory} |")


def jobs_of(seconds):
    """Two jobs for the whole time, the second without switches, and others for a few seconds each."""
    jobs = [sums("one", SIZE, seconds, 0.01), sums("two", SIZE, seconds, 0.01, ways="ring,tree,helpers")]
    begin = 5
    for number in range(40):
        if begin + 12 > seconds:
            break
        jobs.append(sums(f"short{number}", SIZE, 8, 0.05, **{"from": f"{begin}s"}))
        begin += max(15, seconds // 40)
    return jobs


def left_over(folder):
    """Returns processes that name the lab's folder in their command line or environment."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read()
            with open(f"/proc/{pid}/environ", "rb") as file:
                environment = file.read()
        except OSError:
            continue
        if int(pid) != os.getpid() and folder.encode() in words + environment:
            found.append(f"{pid}: {words.replace(bytes(1), b' ').decode(errors='replace')}")
    return found


def main():
    seconds, seed = int(os.environ.get("SOAK") or 600), os.environ.get("SEED") or str(time.time_ns())
    note(f"seed {seed}")
    last = f"last hosts={hosts_of(TOPOLOGY)[0]} until={seconds + 120}s: exec sleep {seconds + 120}"
    with Lab(TOPOLOGY, [*jobs_of(seconds), last], MANAGER,
             ["--switches", SWITCHES]) as lab:
        wait_until(lambda: "one" in lab.calls and "two" in lab.calls, "calls of the jobs")
        soak = Soak(lab, seconds, seed)
        soak.go()
        try:
            wait_until(lambda: all(len(lab.ended.get(name, ())) == len(hosts_of(TOPOLOGY)) for name in ("one", "two")),
                       "end of the jobs", 60)
            soak.check_cells()
        except TimeoutError as error:
            soak.wrong.append(str(error))
        soak.wrong += [line for _, line in lab.lines if "banyan lab: job " in line]
    wrong = left_over(lab.folder)
    if lab.wrong():
        wrong.append(f"{lab.wrong()} elements were wrong")
    print(f"| {seconds} s, seed {seed} | |\n|---|---:|")
    for role in ROLES:
        print(f"| killed: {role} | {soak.kills.get(role, 0)} |")
    missing = [role for role in ROLES if not soak.kills.get(role)]
    if missing and seconds >= ENOUGH:
        wrong.append(f"nothing was killed of: {', '.join(missing)}")
    for job, calls in sorted(lab.calls.items()):
        if job in ("one", "two"):
            print(f"| job {job}: calls, the longest | {len(calls)}, {soak.check_calls(job, calls):.2f} s |")
    print(f"| the machine stood still, which is not counted | {sum(end - begin for begin, end in soak.pauses):.1f} s |")
    ended = sum(len(ranks) for job, ranks in lab.ended.items())
    print(f"| ranks that ended, elements that were wrong | {ended}, {lab.wrong()} |")
    soak.print_uses()
    wrong = soak.wrong + wrong
    for text in wrong:
        note(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
