#!/usr/bin/env python3
"""LightGBM trains over Banyan as over its own sockets, with 2 and 3 ranks, and a rank that is killed is named.

Ranks of `banyan run` run this file again, with what they are to do as arguments."""
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import ranks

ranks.need("numpy", "scipy", "lightgbm")
import lightgbm  # noqa: E402
import numpy  # noqa: E402

import banyan.lightgbm  # noqa: E402

ROUNDS = 20


def examples():
    random = numpy.random.default_rng(7)
    x = random.normal(size=(4001, 10))
    return x, (x[:, 0] + x[:, 1] * x[:, 2] + 0.3 * random.normal(size=len(x)) > 0).astype(float)


def ups_and_downs(scores, data):
    """Gradients of small integers, whose sums are exact in any order."""
    return numpy.where(scores > 2 * data.get_label() - 1, 1.0, -1.0), numpy.ones_like(scores)


def train(objective, rank, size, network):
    x, y = examples()
    mine = slice(rank * len(x) // size, (rank + 1) * len(x) // size)
    parameters = {"verbose": -1, "num_threads": 1, "boost_from_average": False, **network}
    data = lightgbm.Dataset(x[mine], y[mine], params=parameters)
    return lightgbm.train({**parameters, "objective": objective}, data, ROUNDS), x


def one_rank(way, kind, path):
    """Trains, and rank 0 writes the trees and predictions."""
    objective = ups_and_downs if kind == "integers" else "binary"
    rank, size = int(os.environ["BANYAN_RANK"]), int(os.environ["BANYAN_SIZE"])
    if way == "banyan":
        with banyan.Communicator() as comm, banyan.lightgbm.network(comm) as network:
            model, x = train(objective, rank, size, network)
    else:
        ports = way.split(",")
        model, x = train(objective, rank, size, {
            "tree_learner": "data", "num_machines": size, "machines": ",".join(f"127.0.0.1:{port}" for port in ports),
            "local_listen_port": int(ports[rank]), "time_out": 2})
    if rank == 0:
        Path(path).write_text(model.model_to_string().split("\nparameters:")[0], encoding="utf-8")
        numpy.save(path + ".npy", model.predict(x))


def train_until_killed():
    with banyan.Communicator() as comm, banyan.lightgbm.network(comm) as network:
        for _ in range(100000):
            train("binary", comm.rank, comm.size, network)
            print(f"rank {comm.rank} is process {os.getpid()}", flush=True)


class LightGBM(unittest.TestCase):
    def run_ranks(self, size, *arguments):
        done = subprocess.run([os.environ["BANYAN"], "run", "-n", str(size), "--", sys.executable, __file__, *arguments],
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def both(self, folder, size, kind):
        """What training over Banyan and over sockets ends with: trees and predictions."""
        ways = {"banyan": "banyan", "sockets": ",".join(str(ranks.free_port()) for _ in range(size))}
        for name, way in ways.items():
            self.run_ranks(size, way, kind, f"{folder}/{name}")
        return [((Path(folder) / name).read_text(encoding="utf-8"), numpy.load(f"{folder}/{name}.npy")) for name in ways]

    def test_trees_are_identical_with_integer_gradients(self):
        for size in 2, 3:
            with self.subTest(size=size), tempfile.TemporaryDirectory() as folder:
                (trees, _), (expected, _) = self.both(folder, size, "integers")
                self.assertIn(f"Tree={ROUNDS - 1}\n", trees)
                self.assertEqual(trees, expected)

    def test_predictions_are_equal(self):
        for size in 2, 3:
            with self.subTest(size=size), tempfile.TemporaryDirectory() as folder:
                (_, predicted), (_, expected) = self.both(folder, size, "floats")
                self.assertGreater(numpy.ptp(predicted), 0.5)
                numpy.testing.assert_allclose(predicted, expected, rtol=0, atol=1e-6)

    def test_a_killed_rank_is_named(self):
        command = [os.environ["BANYAN"], "run", "-n", "3", "--keep-going", "--", sys.executable, __file__, "until-killed"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
            line = next(line for line in job.stdout if "rank 2 is process" in line)
            os.kill(int(line.split()[-1]), signal.SIGKILL)
            killed = time.monotonic()
            _, said = job.communicate(timeout=60)
        self.assertNotEqual(job.returncode, 0)
        print(f"the other ranks ended {time.monotonic() - killed:.2f} s later")
        for rank in 0, 1:
            self.assertRegex(said, rf"banyan\[rank {rank}\] lightgbm: .*rank 2 \(host ")


if __name__ == "__main__":
    if sys.argv[1:] == ["until-killed"]:
        train_until_killed()
    elif len(sys.argv) > 3:
        one_rank(*sys.argv[1:])
    else:
        unittest.main()
