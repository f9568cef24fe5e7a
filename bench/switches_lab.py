"""Networks with aggregating switches, and one start of `banyan bench` in a lab of one of them."""

import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
TOPOLOGIES = os.path.join(HERE, "..", "examples", "topologies")
BANYAN = os.environ.get("BANYAN") or os.path.join(HERE, "..", "build", "banyan")
TIME_LIMIT = 180  # seconds of one start


@dataclass
class Network:
    name: str
    value: dict
    scale: int = 1

    @property
    def workers(self):
        return sum(node.get("kind") != "switch" and node.get("takes_part", True) for node in self.value["nodes"])

    @property
    def rate(self):
        return 1e8 * self.scale

    def with_loss(self, loss):
        """Returns a network with loss at each switch: on its links towards the workers, both ways. The server's
        link has none."""
        links = [link if "server" in (link["a"], link["b"]) else {**link, "loss": loss} for link in self.value["links"]]
        return Network(f"{self.name}, {100 * loss:g} % loss at each switch", {**self.value, "links": links}, self.scale)

    def without_cells(self):
        """Returns a network in which all switches exist and none can aggregate."""
        nodes = [{**node, "memory": 1} if node.get("aggregates") else node for node in self.value["nodes"]]
        return Network(f"{self.name}, no cells", {**self.value, "nodes": nodes}, self.scale)


def example(name, scale=1):
    with open(os.path.join(TOPOLOGIES, name + ".json")) as file:
        return Network(f"{name} at {100 * scale} Mbit/s", json.load(file), scale)


def star(n, scale=1):
    names = [f"w{i}" for i in range(n)]
    return Network(f"star of {n} at {100 * scale} Mbit/s", {
        "format": "banyan-topology 1", "name": f"star of {n}",
        "nodes": [*({"name": name} for name in names), {"name": "server", "takes_part": False, "helps": True},
                  {"name": "s", "kind": "switch", "aggregates": True}],
        "links": [{"a": name, "b": "s", "capacity": "100m"} for name in [*names, "server"]]}, scale)


class Start:
    """One lab, with a job in it. `switches` is none, user, xdp, or None for a lab without them."""

    def __init__(self, network, switches, arguments, environment=(), sysctls=()):
        self.topology = tempfile.NamedTemporaryFile("w", suffix=".json", delete=False)
        with self.topology as file:
            json.dump(network.value, file)
        words = [BANYAN, "lab", self.topology.name, "--scale", str(network.scale), "--json", "--output", "rank0",
                 "--timeout", str(TIME_LIMIT)]
        words += ["--switches", switches] if switches else []
        for variable in environment:
            words += ["--env", variable]
        for setting in sysctls:
            words += ["--sysctl", setting]
        self.process = subprocess.Popen([*words, "--", "banyan", "bench", "allreduce", "--json", *arguments],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.supervisors, self.lines = {}, []
        self.listener = threading.Thread(target=self.listen, daemon=True)
        self.listener.start()

    def listen(self):
        for line in self.process.stderr:
            self.lines.append(line.rstrip())
            found = re.match(r"banyan lab: switch (\S+): kill -HUP (\d+)", line)
            if found:
                self.supervisors[found[1]] = int(found[2])

    def await_start(self, seconds):
        """Waits this many seconds after all ranks have met: they have memory then, and the first call runs."""
        while not any("switch" in line for line in self.lines) and self.process.poll() is None:
            time.sleep(0.05)
        time.sleep(seconds)

    def kill_switch(self, name):
        for child in children(self.supervisors[name]):
            os.kill(child, signal.SIGKILL)

    def start_switch(self, name):
        os.kill(self.supervisors[name], signal.SIGHUP)

    def ranks(self):
        """Returns the process ids of the job's ranks."""
        found = []
        for pid in descendants(self.process.pid):
            try:
                with open(f"/proc/{pid}/cmdline") as file:
                    if "\0bench\0" in file.read() and not children(pid):
                        found.append(pid)
            except OSError:
                pass
        return [pid for pid in found if pid != self.process.pid]

    def finish(self):
        """Returns the JSON lines of rank 0 and then those of the lab."""
        try:
            out = self.process.stdout.read()
            self.process.wait(TIME_LIMIT + 30)
        finally:
            if self.process.poll() is None:
                self.process.terminate()
                self.process.wait()
            self.listener.join(5)
            os.unlink(self.topology.name)
        self.failed = self.process.returncode != 0
        return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def descendants(pid):
    for child in children(pid):
        yield child
        yield from descendants(child)
