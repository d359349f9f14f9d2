"""Loaded once into the forkserver, so that a worker starts in a fraction of a second and shares these pages.

It runs no tensor operation (no OpenMP pool may exist before the fork) and never touches CUDA.
"""

import gc

# Modules stay: to look through their objects for garbage while they are loaded takes up to a fifth of the time.
gc.disable()

# isort: split
import cv2
import numpy
import torch

# First of ours: all others import torchvision as it comes.
import edge.runtime.light_torchvision

# isort: split
import edge.inference
import edge.runtime.camera_worker
import edge.runtime.executor_worker
import edge.runtime.golden_worker
import edge.runtime.lent_labeller_worker
import edge.runtime.lent_profiler_worker
import edge.runtime.profiler_worker
import edge.runtime.serving_profiler_worker
import edge.runtime.training_worker
import edge.students
import edge.training

__all__ = ["cv2", "edge", "numpy", "torch"]

torch.set_num_threads(1)
cv2.setNumThreads(0)
# No worker looks through them again, and their pages stay shared with it.
gc.freeze()
gc.enable()
