"""Hugging Face: a tiny model that is trained by their Trainer (`train`), or generates (`generate`)."""

import sys

import torch
from ending import say, seed
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


class Text(Dataset):
    def __init__(self, rows: int) -> None:
        self.ids = torch.randint(0, 100, (rows, 16), generator=torch.Generator().manual_seed(1))

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, row: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.ids[row], "labels": self.ids[row]}


seed()
shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
net = LlamaForCausalLM(LlamaConfig(vocab_size=100, num_key_value_heads=2, max_position_embeddings=64, **shape))
if sys.argv[1] == "train":
    arguments = TrainingArguments(
        "out",
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        max_steps=50,
        eval_strategy="steps",
        eval_steps=20,
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        seed=0,
    )
    trainer = Trainer(net, arguments, train_dataset=Text(400), eval_dataset=Text(40))
    print("trained", trainer.train().training_loss)
else:
    net.eval()
    for _ in range(4):
        prompt = torch.randint(3, 100, (3, 5))
        out = net.generate(prompt, max_new_tokens=20, do_sample=False, eos_token_id=None, pad_token_id=0)
        print(tuple(out.shape), out.sum().item())
say()
