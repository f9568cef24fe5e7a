#!/usr/bin/env python3
"""Ray's actors with a communicator, and Ray Train with Banyan as the backend of torch.distributed."""
import json
import os
import secrets
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import ranks

ranks.need("numpy", "torch", "ray")
os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
import numpy  # noqa: E402
import ray  # noqa: E402
import torch  # noqa: E402
from ray import train as ray_train  # noqa: E402
from ray.train.torch import TorchTrainer, prepare_model  # noqa: E402

import banyan.ray  # noqa: E402


class Learner:
    """Fits y = a x + b to examples of its own by steps along the gradient that all learners average."""

    def __init__(self, seed):
        random = numpy.random.default_rng(seed)
        self.x = random.standard_normal(200)
        self.y = 3 * self.x - 1 + random.standard_normal(200) / 100
        self.weights = numpy.zeros(2)

    def train(self, steps):
        comm = banyan.ray.communicator()
        for _ in range(steps):
            error = self.weights[0] * self.x + self.weights[1] - self.y
            gradient = numpy.array([(error * self.x).mean(), error.mean()])
            self.weights -= 0.3 * comm.allreduce(gradient, op="average")
        return self.weights, comm.rank, comm.size, os.getpid()


def worker(config):
    """The function that Ray Train runs in each worker."""
    torch.manual_seed(torch.distributed.get_rank())
    model = prepare_model(torch.nn.Linear(4, 1))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    wanted = torch.tensor([[1.0, -2.0, 3.0, -4.0]])
    for _ in range(config["steps"]):
        x = torch.randn(64, 4)
        loss = torch.nn.functional.mse_loss(model(x), x @ wanted.T)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    weights = torch.cat([p.data.flatten() for p in model.parameters()])
    both = [torch.empty_like(weights) for _ in range(2)]
    torch.distributed.all_gather(both, weights)
    found = {"loss": loss.item(), "backend": torch.distributed.get_backend(), "equal": torch.equal(*both),
             "model": type(model).__name__, "size": banyan.torch.communicator().size}
    Path(config["folder"], f"rank-{ray_train.get_context().get_world_rank()}").write_text(json.dumps(found), encoding="ascii")


class Ray(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="banyan-ray-")
        ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20,
                 runtime_env={"env_vars": {name: os.environ[name] for name in os.environ if name.startswith("BANYAN")
                                           or name == "PYTHONPATH"}}, _temp_dir=cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        ray.shutdown()
        cls.folder.cleanup()

    def test_actors(self):
        """Two actors train. One of them is killed: the other gets an error that names it, and joins anew with its
        successor."""
        actor = ray.remote(num_cpus=1)(Learner)
        actors = [actor.remote(seed) for seed in range(2)]
        with self.assertRaisesRegex(banyan.RequestError, "call banyan.ray.join"):
            ray.get(actors[0].train.remote(1), timeout=60)
        with self.assertRaisesRegex(banyan.RequestError, "an actor is given twice"):
            banyan.ray.join([actors[0], *actors])
        banyan.ray.join(actors)
        (one, *who), (other, *whom) = ray.get([a.train.remote(50) for a in actors], timeout=60)
        assert who[:2] == [0, 2] and whom[:2] == [1, 2] and who[2] != whom[2], (who, whom)
        assert numpy.array_equal(one, other) and numpy.allclose(one, [3, -1], atol=0.01), (one, other)
        ray.kill(actors[1])
        try:
            ray.get(actors[0].train.remote(1 << 30), timeout=60)
            raise AssertionError("a call without the killed actor has ended")
        except banyan.PeerDead as error:
            assert "rank 1 (host " in str(error), error
        actors[1] = actor.remote(7)
        banyan.ray.join(actors)
        assert [result[2] for result in ray.get([a.train.remote(50) for a in actors], timeout=60)] == [2, 2]
        for each in actors:
            ray.kill(each)

    def test_without_train(self):
        """Actors need neither Ray Train nor the packages that it needs."""
        program = ("import sys; sys.modules['ray.train'] = None\n"
                   "import banyan.ray; print(banyan.ray.join.__name__, hasattr(banyan.ray, 'Config')); banyan.ray.TorchConfig")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert done.stdout == "join False\n" and "ModuleNotFoundError" in done.stderr, done

    def test_train(self):
        """Ray Train's TorchTrainer with two workers and DDP."""
        TorchTrainer(worker, train_loop_config={"steps": 100, "folder": self.folder.name},
                     torch_config=banyan.ray.TorchConfig(timeout_s=60),
                     scaling_config=ray_train.ScalingConfig(num_workers=2),
                     run_config=ray_train.RunConfig(storage_path=self.folder.name)).fit()
        for rank in range(2):
            found = json.loads(Path(self.folder.name, f"rank-{rank}").read_text(encoding="ascii"))
            assert found.pop("loss") < 1e-3
            assert found == {"backend": "banyan", "equal": True, "model": "DistributedDataParallel", "size": 2}, found


if __name__ == "__main__":
    unittest.main()
