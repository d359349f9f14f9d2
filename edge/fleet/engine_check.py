"""Whether the engine of a site file can be opened on this box, as far as a check without opening it can find."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from edge.core.errors import Unavailable
from edge.core.fleet_job_file import SubmittedJob
from edge.engines.kubernetes_pods import resources_for, work_text
from edge.engines.ray_settings import RayCertificates, RaySecurity
from edge.fleet.cluster_place import cluster_place
from edge.ingest.secrets import resolve_secret
from edge.settings import EngineSettings, RayEngineSettings


def check_engine(settings: EngineSettings) -> None:
    """Raises Unavailable where a package is missing, InvalidValue for a file, a token or a name that is."""
    if settings.ray is not None:
        _check_installed("ray", "Ray")
        ray_security(settings.ray)
    if settings.kubernetes is not None:
        _check_installed("kubernetes", "the Kubernetes client")
        cluster_place(settings.kubernetes)


def check_job(settings: EngineSettings, asked: SubmittedJob) -> None:
    """Raises InvalidValue, which names the field, for a job that this engine can never launch."""
    if settings.kubernetes is not None:
        resources_for(asked.job.demand, settings.kubernetes.mode, limited=True)
        work_text(asked.work)


def ray_security(settings: RayEngineSettings) -> RaySecurity:
    """The token and the certificates of this box. Raises InvalidValue."""
    token = resolve_secret(settings.token, "fleet.engine.ray.token").reveal().strip()
    paths = (settings.certificate, settings.key, settings.authority)
    return RaySecurity(token, RayCertificates(*(Path(path).absolute() for path in paths)))


def _check_installed(kind: str, name: str) -> None:
    if find_spec(kind) is None:
        words = f"fleet.engine.kind is {kind}, and {name} is not installed here"
        raise Unavailable(words, f"pip install 'magpie-edge[{kind}]'")
