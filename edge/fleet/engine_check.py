"""Whether the engine of a site file can be opened on this box, as far as can be told without opening it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from edge.core.errors import Unavailable
from edge.engines.ray_settings import RayCertificates, RaySecurity
from edge.ingest.secrets import resolve_secret
from edge.settings import EngineSettings, RayEngineSettings


def check_engine(settings: EngineSettings) -> None:
    """Raises Unavailable where a package is missing, InvalidValue for a file or a token that is."""
    if settings.ray is None:
        return
    if find_spec("ray") is None:
        raise Unavailable("fleet.engine.kind is ray, and Ray is not installed here", "pip install 'magpie-edge[ray]'")
    ray_security(settings.ray)


def ray_security(settings: RayEngineSettings) -> RaySecurity:
    """The token and the certificates of this box. Raises InvalidValue."""
    token = resolve_secret(settings.token, "fleet.engine.ray.token").reveal().strip()
    paths = (settings.certificate, settings.key, settings.authority)
    return RaySecurity(token, RayCertificates(*(Path(path).absolute() for path in paths)))
