"""Train with Hugging Face's Trainer: losses of sentences and losses of tokens, in one batch or accumulated over four.

This shows how the loss is passed; the tasks are so easy that the mean of all losses would do. Every batch takes its
own largest losses, so four small ones are not quite the same as a large one.

Run: python examples/torch_trainer.py
"""

from __future__ import annotations

import tempfile

import torch
from torch import Tensor, nn
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from atklearn.torch import KSchedule, TrainerLoss

N_LETTERS, LENGTH, PAD = 4, 4, 4
N_STEPS, BATCH = 60, 64


class LowerK(TrainerCallback):
    """Go from the mean of all losses to that of the k largest step by step, over the whole training."""

    def __init__(self, loss: TrainerLoss) -> None:
        self.schedule = KSchedule(loss, steps=N_STEPS)

    def on_step_end(self, *_: object, **__: object) -> None:
        """Take a step whenever the optimiser has taken one."""
        self.schedule.step()


def with_classes(letters: Tensor) -> tuple[Tensor, Tensor]:
    """Sentences of two classes: whether the first letter is of the upper half."""
    return letters, (letters[:, 0] >= N_LETTERS // 2).long()


def with_answers(letters: Tensor) -> tuple[Tensor, Tensor]:
    """Sentences with an answer, the first letters once more, from one to all: only these have labels."""
    n_asked = 1 + letters.sum(1, keepdim=True) % LENGTH
    answers = torch.where(torch.arange(LENGTH) < n_asked, letters, -100)
    return torch.cat([letters, letters], dim=1), torch.cat([torch.full_like(letters, -100), answers], dim=1)


def train(model: nn.Module, loss: TrainerLoss, accumulate: int, inputs: Tensor, labels: Tensor) -> None:
    """Train with as many sentences per step of the optimiser, in however many batches."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=N_STEPS,
            per_device_train_batch_size=BATCH // accumulate,
            gradient_accumulation_steps=accumulate,
            learning_rate=0.01,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            dataloader_pin_memory=False,
            use_cpu=True,
        )
        data = [{"input_ids": row, "labels": label} for row, label in zip(inputs, labels, strict=True)]
        trainer = Trainer(model, arguments, train_dataset=data, compute_loss_func=loss, callbacks=[LowerK(loss)])
        trainer.remove_callback(PrinterCallback)
        trainer.train()


def main() -> None:
    """Train both kinds of model, each with one batch and with four batches per step."""
    torch.set_num_threads(1)  # the models are tiny: threads would wait for each other
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = LlamaConfig(vocab_size=PAD + 1, pad_token_id=PAD, num_labels=2, **size)
    generator = torch.Generator().manual_seed(0)
    letters, new_letters = (torch.randint(N_LETTERS, (n, LENGTH), generator=generator) for n in (2048, 1000))
    for task, kind, make, shift in [
        ("classes", LlamaForSequenceClassification, with_classes, False),
        ("answers", LlamaForCausalLM, with_answers, True),
    ]:
        for accumulate in (1, 4):
            torch.manual_seed(0)
            model = kind(config)
            loss = TrainerLoss(0.5, shift=shift)
            train(model, loss, accumulate, *make(letters))
            inputs, labels = make(new_letters)
            with torch.no_grad():
                outputs = model.eval()(inputs)
                value = loss(outputs, labels)
            batches = f"{accumulate} x {BATCH // accumulate:2}"
            print(f"{task}, {batches} at a time: mean of the larger half of the losses {value:.4f}")


if __name__ == "__main__":
    main()
