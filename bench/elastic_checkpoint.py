"""The training of examples/elastic/train.py for torchrun, which starts all ranks again when one dies: they go on from a
checkpoint. bench/elastic.py starts it."""
import os
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "elastic"))
import train  # noqa: E402


def save(path, training, step):
    torch.save({"network": training.network.state_dict(), "optimizer": training.optimizer.state_dict(), "step": step},
               f"{path}.new")
    os.rename(f"{path}.new", path)


def load(path, training):
    if not os.path.exists(path):
        return 0
    kept = torch.load(path)
    training.network.load_state_dict(kept["network"])
    training.optimizer.load_state_dict(kept["optimizer"])
    return kept["step"]


def main():
    parser = train.options()
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--every", type=int, default=50, help="steps from one checkpoint to the next")
    given = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("banyan", timeout=timedelta(seconds=60))
    training = train.Training(given)
    step = load(given.checkpoint, training)
    training.log("change", step, everybody=True)
    model = DistributedDataParallel(training.network)
    while step < training.steps:
        training.step(model, step)
        step += 1
        if step % given.every == 0 and dist.get_rank() == 0:
            save(given.checkpoint, training, step)
        training.log("step", step)
    training.result("checkpoints")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
