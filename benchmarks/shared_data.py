"""The developers' shared data, which is no part of the repository: MAGPIE_SHARED, or the folder `../shared`."""

from __future__ import annotations

import os
from pathlib import Path

ABSENT = "the developers' shared data folder is absent (set MAGPIE_SHARED)"
REPO = Path(__file__).resolve().parent.parent


def shared_folder() -> Path:
    """The folder, there or not."""
    return Path(os.environ.get("MAGPIE_SHARED", REPO.parent / "shared"))


def shared_data() -> Path | None:
    """Its data; None, which is printed: they are absent."""
    data = shared_folder() / "data"
    if data.is_dir():
        return data
    print(ABSENT)
    return None


def shared_clips() -> Path | None:
    """The shared data with the clips in `videos`, whose detectors are used from then on; None, which is printed: they
    are absent."""
    data = shared_folder() / "data"
    if not (data / "videos").is_dir():
        print(ABSENT)
        return None
    os.environ.setdefault("MAGPIE_MODELS", str(data / "models"))
    return data
