"""PyTorch Lightning over Banyan: the strategy names the backend.

    build/banyan run -n 2 -- python3 examples/trainers/lightning_ddp.py"""
import os

import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy

import banyan.torch  # makes the backend known
import fit_line


class Line(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1, bias=False)

    def training_step(self, batch, _):
        x, y = batch
        return torch.nn.functional.mse_loss(self.layer(x), y)

    def on_train_end(self):
        assert self.trainer.world_size == banyan.torch.communicator().size, self.trainer.world_size
        fit_line.check(self.layer, self.global_rank)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


if __name__ == "__main__":
    ranks, on_host = int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_WORLD_SIZE"])
    trainer = lightning.Trainer(
        accelerator="cpu", strategy=DDPStrategy(process_group_backend="banyan"), devices=on_host, num_nodes=ranks // on_host,
        max_epochs=20, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Line(), torch.utils.data.DataLoader(fit_line.dataset(), batch_size=32, shuffle=True))
