"""Hugging Face Accelerate over Banyan. On CPUs Accelerate takes only Gloo and MPI by name; it uses a group that exists.

    build/banyan run -n 2 -- python3 examples/trainers/accelerate_ddp.py"""
import torch
import torch.distributed as dist
from accelerate import Accelerator

import banyan.torch  # makes the backend known
import fit_line

dist.init_process_group("banyan")  # before Accelerator, which would make a group over Gloo
accelerator = Accelerator(cpu=True)
line = torch.nn.Linear(4, 1, bias=False)
loader = torch.utils.data.DataLoader(fit_line.dataset(), batch_size=32, shuffle=True)
model, optimiser, loader = accelerator.prepare(line, torch.optim.SGD(line.parameters(), lr=0.1), loader)
for epoch in range(20):
    for x, y in loader:
        accelerator.backward(torch.nn.functional.mse_loss(model(x), y))
        optimiser.step()
        optimiser.zero_grad()
assert isinstance(model, torch.nn.parallel.DistributedDataParallel), type(model)
assert accelerator.num_processes == banyan.torch.communicator().size, accelerator.num_processes
fit_line.check(accelerator.unwrap_model(model), accelerator.process_index)
accelerator.end_training()  # leaves the group
