"""Networks of our own architectures, made from their description."""

from __future__ import annotations

from dataclasses import replace

import torch

from edge.core.configs import StudentSpec
from edge.students.classifier import ClassificationNet
from edge.students.detector import DetectionNet
from edge.students.network import StudentNet


def build(spec: StudentSpec, seed: int = 0) -> StudentNet:
    """A network for `spec` with fresh weights (the same for the same seed), in eval mode on the CPU."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net: StudentNet = DetectionNet(spec) if spec.task == "detection" else ClassificationNet(spec)
    return net.eval()


def resize_last_layer(net: StudentNet, width: int, seed: int = 0) -> StudentNet:
    """A new network like `net` whose hidden last layer is `width` wide: weights that still fit are copied, the layers
    that change shape start afresh.
    """
    other = build(replace(net.spec, last_layer_width=width), seed)
    own = other.state_dict()
    kept = {k: v for k, v in net.state_dict().items() if k in own and own[k].shape == v.shape}
    other.load_state_dict(kept, strict=False)
    device = next(net.parameters()).device
    return other.to(device)
