"""A camera's memory beside its models: it must go when the camera, or its student, is another."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

from edge.core.baseline import Baseline
from edge.core.errors import StoreError
from edge.store.store import Store


def forget(store: Store, data: Path, camera: str, labels_too: bool) -> None:
    """Forget what past windows taught of a camera's download; `labels_too`: its kept pictures and their labels, which
    are indices into a list of classes that is no more. Blocking; the camera's worker must not be there. Raises
    StoreError."""
    if store.settings.get_settings(f"baseline/{camera}") is not None:
        partial(store.settings.put_settings, audited=False)(
            f"baseline/{camera}", Baseline().to_json(), "student changed"
        )
    if labels_too:
        forget_pictures(data, camera)


def forget_pictures(data: Path, camera: str) -> None:
    """Delete the pictures that a camera learns from, with their labels: they show what is to be hidden now, or name
    classes that are no more. Blocking; the camera's worker must not be there. Raises StoreError where some could not be
    deleted, after all others."""
    left: OSError | None = None
    for part in ("pictures", "exemplars", "kept-out"):
        folder = data / part / camera
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            continue
        except OSError as error:
            left = error
            shutil.rmtree(folder, ignore_errors=True)
    if left is not None:
        raise StoreError(f"earlier pictures of {camera} could not all be deleted: {left}")
