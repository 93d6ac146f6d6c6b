"""Linear heads trained by gradient descent, with losses of pytorch-metric-learning.

A head is one linear layer whose output is scaled to length 1:

    z(x) = (W x + b) / |W x + b|.

It starts from PCA. Adam changes it along batches with equally many samples of each of their
classes. Losses have their default parameters. Needs torch and pytorch-metric-learning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytorch_metric_learning
import torch
from pytorch_metric_learning import losses
from pytorch_metric_learning.samplers import MPerClassSampler
from pytorch_metric_learning.utils import common_functions

from mpda.io import AffineMap
from protocol import Array

# Samples of a batch, 4 of each of 32 classes or more of each where there are fewer classes: usual
# numbers of papers on metric learning.
_BATCH, _PER_CLASS = 128, 4
# The authors of ProxyAnchor train proxies at 100 times the rate of the network.
_PROXY_RATE = 100.0


def versions(device: str) -> str:
    """Return the versions of the libraries and the name of the device."""
    name = torch.cuda.get_device_name() if device.startswith("cuda") else device
    return (
        f"torch {torch.__version__}, "
        f"pytorch-metric-learning {pytorch_metric_learning.__version__}, heads on {name}"
    )


def find_device(name: str | None) -> str:
    """Return the device of a name; None takes a GPU if there is one."""
    return name or ("cuda" if torch.cuda.is_available() else "cpu")


@dataclass(frozen=True)
class HeadTrainer:
    """Training of a head with one loss.

    Parameters
    ----------
    loss : {"SupCon", "ProxyAnchor", "multi-similarity", "normalised softmax"}
        Name of the loss.
    seed : int
        Seed of batches and proxies.
    device : str
        Device of torch.
    """

    loss: str
    seed: int
    device: str

    def train(
        self, X: Array, y: Array, start: AffineMap, rate: float, epochs: Sequence[int]
    ) -> dict[int, AffineMap]:
        """Train a head; return it after each of the numbers of epochs.

        X has shape (n, d), y (n,), the matrix of ``start`` (r, d). The rate does not decay, so that
        the first ten of forty epochs are a run of ten.
        """
        torch.manual_seed(self.seed)
        common_functions.NUMPY_RANDOM = np.random.default_rng(self.seed)  # of the sampler
        classes, codes = np.unique(y, return_inverse=True)
        head = _make_head(start).to(self.device)
        criterion = _make_loss(self.loss, len(classes), head.out_features).to(self.device)
        groups = [{"params": list(head.parameters()), "lr": rate}]
        if proxies := list(criterion.parameters()):
            factor = _PROXY_RATE if self.loss == "ProxyAnchor" else 1.0
            groups.append({"params": proxies, "lr": factor * rate})
        optimiser = torch.optim.Adam(groups)
        rows = torch.as_tensor(X, dtype=torch.float32, device=self.device)
        targets = torch.as_tensor(codes, device=self.device)
        per_class = max(_PER_CLASS, _BATCH // len(classes))
        n_batch = per_class * min(_BATCH // per_class, len(classes))
        sampler = MPerClassSampler(codes, per_class, n_batch, length_before_new_iter=len(codes))
        heads = {}
        for epoch in range(1, max(epochs) + 1):
            for batch in torch.as_tensor(list(sampler), device=self.device).split(n_batch):
                optimiser.zero_grad()
                Z = torch.nn.functional.normalize(head(rows[batch]))
                criterion(Z, targets[batch]).backward()
                optimiser.step()
            if epoch in epochs:
                heads[epoch] = _read_head(head)
        return heads

    def search(
        self,
        X: Array,
        y: Array,
        start: AffineMap,
        score: Callable[[AffineMap], float],
        rates: Sequence[float],
        epochs: Sequence[int],
    ) -> dict[str, Any]:
        """Return the learning rate and the number of epochs whose head has the best score."""
        scores = {
            (rate, epoch): score(head)
            for rate in rates
            for epoch, head in self.train(X, y, start, rate, epochs).items()
        }
        rate, epoch = max(scores, key=lambda key: scores[key])
        return {"rate": rate, "epochs": epoch}


def _make_head(start: AffineMap) -> Any:
    """Return the linear layer of an affine map."""
    head = torch.nn.Linear(start.matrix.shape[1], start.matrix.shape[0])
    with torch.no_grad():
        head.weight.copy_(torch.as_tensor(start.matrix))
        head.bias.copy_(torch.as_tensor(start.offset - start.matrix @ start.mean))
    return head


def _make_loss(name: str, n_classes: int, n_outputs: int) -> Any:
    if name == "SupCon":
        return losses.SupConLoss()
    if name == "ProxyAnchor":
        return losses.ProxyAnchorLoss(n_classes, n_outputs)
    if name == "multi-similarity":
        return losses.MultiSimilarityLoss()
    return losses.NormalizedSoftmaxLoss(n_classes, n_outputs)


def _read_head(head: Any) -> AffineMap:
    matrix, offset = (p.detach().cpu().double().numpy().copy() for p in (head.weight, head.bias))
    return AffineMap(np.zeros(matrix.shape[1]), matrix, offset, unit_length=True)
