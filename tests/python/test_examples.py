#!/usr/bin/env python3
"""The examples in examples/pytorch, for a few steps: they learn, end with equal replicas, which they check themselves,
and have the same losses over Gloo. (That of elastic training is a part of test_elastic.py.)"""
import csv
import os
import sys
import tempfile
import unittest
from pathlib import Path

import ranks

ranks.need_torch()
import torch  # noqa: E402


SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "examples" / "pytorch"))
import embedding  # noqa: E402
import fashion  # noqa: E402
import local_sgd  # noqa: E402
import transformer  # noqa: E402

HAS_IMAGES = os.path.exists(fashion.IMAGES)
SMALL = ["--width=64", "--layers=1", "--length=32", "--rate=0.01"]


def job(example, arguments):
    sys.stdout = open(os.devnull, "w", encoding="utf-8")
    example.main(arguments)


class Examples(unittest.TestCase):
    def losses(self, example, *arguments, size=2, steps=12):
        """What an example has written to its log."""
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log"
            ranks.run(size, job, example, [*arguments, f"--steps={steps}", "--every=4", f"--log={log}",
                                           f"--text={SOURCE}/docs/*.md"])
            with open(log, encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
        self.assertEqual([int(row["step"]) for row in rows], list(range(4, steps + 1, 4)))
        losses = [float(row["loss"]) for row in rows]
        self.assertLess(losses[-1], losses[0])
        return losses

    def test_transformer(self):
        own = self.losses(transformer, *SMALL)
        self.assertEqual(own, self.losses(transformer, *SMALL, "--backend=gloo"))

    @unittest.skipIf(tuple(map(int, torch.__version__.split(".")[:2])) < (2, 6), "this PyTorch lacks FSDP 2")
    def test_sharded(self):
        for loss, other in zip(self.losses(transformer, *SMALL, "--sharded"), self.losses(transformer, *SMALL)):
            self.assertAlmostEqual(loss, other, delta=0.01)

    def test_embedding(self):
        for loss, other in zip(self.losses(embedding), self.losses(embedding, "--backend=gloo")):
            self.assertAlmostEqual(loss, other, delta=1e-4)

    def test_local_sgd(self):
        together = self.losses(local_sgd, *SMALL, "--period=1", size=4)
        local = self.losses(local_sgd, *SMALL, "--period=3", "--warmup=4", size=4)
        self.assertEqual(local[0], together[0])  # gradients of all sites are averaged at first
        self.assertNotEqual(local[-1], together[-1])

    @unittest.skipUnless(HAS_IMAGES, f"no {fashion.IMAGES} (apt-get install dataset-fashion-mnist)")
    def test_fashion(self):
        ranks.run(2, job, fashion, ["--model=mlp", "--limit=2000"])


if __name__ == "__main__":
    unittest.main()
