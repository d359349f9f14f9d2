"""torchvision as the workers have it: without torch's compiler, which takes as long to load as torch."""

import edge.runtime.light_torchvision  # noqa: F401
