"""Lightning: two epochs of 50 batches of 4, each validated with 10 batches."""

import lightning
import torch
from ending import say, seed
from torch.utils.data import DataLoader, TensorDataset


class Module(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 2)

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        return self.layer(batch[0]).square().mean()

    def validation_step(self, batch: list[torch.Tensor], _: int) -> None:
        self.log("mean", self.layer(batch[0]).mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.1)


seed()
quiet = {"enable_progress_bar": False, "enable_checkpointing": False, "logger": False}
trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", **quiet)
loaders = (DataLoader(TensorDataset(torch.randn(rows, 8)), batch_size=4) for rows in (200, 40))
net = Module()
trainer.fit(net, *loaders)
print(net.layer.weight.sum().item())
say()
