"""The loss in loops that others have written: autocast, Trainer, Lightning, the examples."""

from __future__ import annotations

import copy
import re
import runpy
from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy

from atklearn.torch import AverageTopKLoss, KSchedule, TrainerLoss, wrap

N_CLASSES, N_FEATURES = 3, 5
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def one_thread():
    """The models are tiny: threads would wait for each other. The examples set the number of threads."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n_threads)


def rows_of_classes(n, seed=0):
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, N_FEATURES, generator=generator)
    y = (X[:, 0] + 0.7 * torch.randn(n, generator=generator) > 0.3).long() + (X[:, 1] > 1.0).long()
    return X, y


def linear_model():
    torch.manual_seed(0)
    return torch.nn.Linear(N_FEATURES, N_CLASSES)


def flat(model):
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])


def losses_of(model, X, y):
    return cross_entropy(model(X), y, reduction="none")


@pytest.mark.parametrize("scope", ["batch", "dataset"])
def test_autocast_to_half_precision_leaves_a_finite_loss_in_full(scope):
    (X, y), model = rows_of_classes(32), linear_model()
    criterion = wrap(torch.nn.CrossEntropyLoss(), 0.3, scope=scope)
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(X)
        values = [criterion(logits, y), TrainerLoss(0.3, scope=scope)((logits,), y)]
        own = AverageTopKLoss(0.3, scope)(cross_entropy(logits, y, reduction="none").bfloat16())
    assert logits.dtype == torch.bfloat16
    for value in [*values, own]:
        assert value.dtype == torch.float32
        assert value.isfinite()
        model.zero_grad()
        value.backward(retain_graph=True)
        assert model.weight.grad.isfinite().all()
        assert model.weight.grad.abs().max() > 0


# What the Trainer is given


def test_trainer_loss_of_causal_models_is_that_of_the_next_token():
    generator = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(2, 6, 4, generator=generator), torch.randint(4, (2, 6), generator=generator)
    labels[0, 3:] = -100
    losses = cross_entropy(logits[:, :-1].reshape(-1, 4), labels[:, 1:].reshape(-1), reduction="none")
    largest = losses[labels[:, 1:].reshape(-1) != -100].sort(descending=True).values
    assert len(largest) == 2 + 5
    for k in (3, 3 / 7):
        torch.testing.assert_close(TrainerLoss(k, shift=True)({"logits": logits}, labels), largest[:3].mean())


def test_trainer_loss_learns_in_training_only_and_goes_where_the_logits_are():
    (X, y), loss = rows_of_classes(32), TrainerLoss(0.3, scope="dataset")
    logits = linear_model()(X)
    loss((logits,), y)
    state = copy.deepcopy(loss.state_dict())
    with torch.no_grad():
        loss((100.0 * logits,), y)
    torch.testing.assert_close(loss.state_dict(), state, rtol=0, atol=0)
    loss((100.0 * logits,), y)
    assert loss.average_top_k.threshold > state["average_top_k.tracked.threshold"]
    loss((logits.to("meta"),), y)
    assert {buffer.device.type for buffer in loss.buffers()} == {"meta"}


def test_trainer_loss_says_which_labels_it_expects():
    with pytest.raises(ValueError, match=r"one class per place of logits of shape \(4, 3\), got shape \(4, 3\)"):
        TrainerLoss(0.5)((torch.zeros(4, 3),), torch.zeros(4, 3))


def test_trainer_loss_has_a_schedule():
    loss = TrainerLoss(0.2)
    KSchedule(loss, steps=2).step()
    assert loss.average_top_k.k == pytest.approx(0.6)


# Hugging Face's Trainer

N_TOKENS, VOCABULARY = 6, 7


@pytest.fixture
def transformers(monkeypatch):
    library = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    # our folder of tests of this name is on the path, and would be taken for the library of the same name
    monkeypatch.setattr("transformers.trainer.is_datasets_available", lambda: False)
    return library


def tiny_llama(transformers, kind):
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_labels=N_CLASSES,
        classifier_dropout=0.0,  # what chance leaves out would depend on how often one looks
        pad_token_id=0,
    )
    torch.manual_seed(0)
    return getattr(transformers, f"LlamaFor{kind}")(config)


def sentences(kind, n=32):
    """Return sentences; of tokens, each has its own number of labels, from one to all but one of them."""
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(1, VOCABULARY, (n, N_TOKENS), generator=generator)
    if kind == "SequenceClassification":
        labels = tokens.sum(1) % N_CLASSES
    else:
        labels = tokens % N_CLASSES if kind == "TokenClassification" else tokens.clone()
        known = torch.randint(2, N_TOKENS, (n, 1), generator=generator)
        labels[torch.arange(N_TOKENS) >= known] = -100
    return [{"input_ids": row, "labels": label} for row, label in zip(tokens, labels, strict=True)]


def trained(transformers, folder, kind, loss=None, model=None, batch=8, accumulate=1, resume=None, **settings):
    """Return a tiny model after some steps of the Trainer, with its own loss or with another one."""
    model = tiny_llama(transformers, kind) if model is None else model
    settings = {"max_steps": 6, "save_strategy": "no", **settings}
    arguments = transformers.TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=batch,
        gradient_accumulation_steps=accumulate,
        learning_rate=0.5,
        lr_scheduler_type="constant",
        optim="sgd",
        max_grad_norm=0.0,
        dataloader_pin_memory=False,
        disable_tqdm=True,
        report_to=[],
        use_cpu=True,
        **settings,
    )
    data = sentences(kind)
    trainer = transformers.Trainer(model, arguments, train_dataset=data, eval_dataset=data, compute_loss_func=loss)
    trainer.train(resume_from_checkpoint=resume)
    return model


@pytest.mark.parametrize("kind", ["CausalLM", "TokenClassification", "SequenceClassification"])
def test_with_all_losses_the_trainer_trains_as_in_one_batch_with_its_own_loss(transformers, tmp_path, kind):
    # the own losses of classifying models do not divide by what is accumulated (transformers 5.22)
    own = trained(transformers, tmp_path, kind)
    assert (flat(own) - flat(tiny_llama(transformers, kind))).abs().max() > 0.01
    for batch, accumulate in [(8, 1), (2, 4)]:
        loss = TrainerLoss(1.0, shift=kind == "CausalLM")
        ours = trained(transformers, tmp_path, kind, loss, batch=batch, accumulate=accumulate)
        torch.testing.assert_close(flat(ours), flat(own), rtol=1e-4, atol=1e-6)


def test_the_trainer_goes_on_from_a_checkpoint_with_the_lambda_of_a_loss_on_the_model(transformers, tmp_path):
    def run(**settings):
        model = tiny_llama(transformers, "TokenClassification")
        model.average_top_k = TrainerLoss(0.3, scope="dataset", accumulation_steps=2)
        settings = {"batch": 4, "accumulate": 2, "save_strategy": "steps", "save_steps": 3, **settings}
        return trained(transformers, tmp_path, "TokenClassification", model.average_top_k, model, **settings)

    whole = run(eval_strategy="steps", eval_steps=2)  # looking does not change what is learnt
    resumed = run(resume=str(tmp_path / "checkpoint-3"))
    assert whole.average_top_k.average_top_k.threshold > 0
    torch.testing.assert_close(resumed.state_dict(), whole.state_dict(), rtol=0, atol=0)


# Lightning


@pytest.fixture
def lightning_module():
    lightning = pytest.importorskip("lightning.pytorch")

    class Classifier(lightning.LightningModule):
        def __init__(self, loss):
            super().__init__()
            self.linear, self.loss = linear_model(), loss

        def training_step(self, batch, index):  # noqa: ARG002
            X, y = batch
            return self.loss(losses_of(self.linear, X, y))

        validation_step = training_step

        def configure_optimizers(self):
            return torch.optim.SGD(self.linear.parameters(), lr=0.5)

    return Classifier


def fit_by_lightning(module, folder, max_epochs=2, accumulate=1, checkpoint=None):
    from lightning.pytorch import Trainer

    trainer = Trainer(
        accelerator="cpu",
        max_epochs=max_epochs,
        accumulate_grad_batches=accumulate,
        default_root_dir=folder,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*rows_of_classes(64)), batch_size=8)
    trainer.fit(module, batches, batches, ckpt_path=checkpoint)
    trainer.save_checkpoint(folder / f"{max_epochs}.ckpt")
    return module


FROM_LIGHTNING = pytest.mark.filterwarnings(
    "ignore:.*LeafSpec.*is deprecated:FutureWarning",
    "ignore:.*does not have many workers:UserWarning",
)


@FROM_LIGHTNING
@pytest.mark.parametrize("accumulate", [1, 4])
def test_lightning_trains_as_the_plain_loop(lightning_module, tmp_path, accumulate):
    module = lightning_module(AverageTopKLoss(0.3, "dataset", accumulation_steps=accumulate))
    fit_by_lightning(module, tmp_path, accumulate=accumulate)
    model, loss = linear_model(), AverageTopKLoss(0.3, "dataset", accumulation_steps=accumulate)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    X, y = (part.repeat(2, *[1] * (part.ndim - 1)) for part in rows_of_classes(64))
    for call, (X_batch, y_batch) in enumerate(zip(X.split(8), y.split(8), strict=True), start=1):
        (loss(losses_of(model, X_batch, y_batch)) / accumulate).backward()
        if call % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
    torch.testing.assert_close(flat(module.linear), flat(model))
    torch.testing.assert_close(module.loss.state_dict(), loss.state_dict())


@FROM_LIGHTNING
def test_lightning_goes_on_from_a_checkpoint_as_if_nothing_had_been(lightning_module, tmp_path):
    whole = fit_by_lightning(lightning_module(AverageTopKLoss(0.3, "dataset")), tmp_path, max_epochs=4)
    half = fit_by_lightning(lightning_module(AverageTopKLoss(0.3, "dataset")), tmp_path, max_epochs=2)
    saved = torch.load(tmp_path / "2.ckpt", weights_only=False)["state_dict"]
    assert saved["loss.tracked.threshold"] == half.loss.threshold
    resumed = lightning_module(AverageTopKLoss(0.3, "dataset"))
    fit_by_lightning(resumed, tmp_path, max_epochs=4, checkpoint=tmp_path / "2.ckpt")
    torch.testing.assert_close(resumed.state_dict(), whole.state_dict(), rtol=0, atol=0)


# The examples run as they are, say little, and show what they say they show


@pytest.fixture
def lines_of(capsys):
    """Return what runs an example, and returns the lines that it prints; nothing is said aside."""

    def run(name):
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        said = capsys.readouterr()
        lines = said.out.splitlines()
        assert said.err == ""
        assert 0 < len(lines) <= 10
        assert max(map(len, lines)) <= 80
        return lines

    return run


def numbers(line):
    return [float(number) for number in re.findall(r"\d+\.\d+", line)]


def test_the_plain_loop_has_fewer_errors_among_the_rare_rows(lines_of):
    mean, top, tracked = lines_of("torch_loop")
    assert numbers(top)[-1] < numbers(mean)[-1] / 2
    assert numbers(top)[1] <= numbers(mean)[1]
    assert "lambda" in tracked


def test_hard_pixels_help_the_small_class(lines_of):
    _, mean, hardest = lines_of("torch_segmentation")
    assert numbers(hardest)[-1] > numbers(mean)[-1]


def test_lightning_resumes_as_if_nothing_had_been(lines_of):
    pytest.importorskip("lightning")
    lines = lines_of("torch_lightning")
    assert lines[-1].endswith("the same: True")


@pytest.mark.usefixtures("transformers")
def test_the_trainer_learns_both_tasks(lines_of):
    for line in lines_of("torch_trainer"):
        assert numbers(line)[-1] < 0.1  # by chance: more than 0.7, and 1.4
