"""Settings of the jobs of a fleet: the engine that runs them, and how tenants and queues share the boxes."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from edge.core.errors import InvalidValue
from edge.core.fleet import BOX_LABEL, FleetBox, FleetDiscipline, FleetQueue, FleetTenant, check_name, check_resource
from edge.settings.base import FieldProblem, Identifier, SecretReference, Settings

#: The port of the store of a fleet's Ray cluster.
RAY_PORT: Final = 8471
#: Ray's sockets lie below the folder, and a socket's path has at most 107 characters.
_LONGEST_FOLDER: Final = 35


class RayEngineSettings(Settings):
    """This box in the fleet's Ray cluster. Files are PEM; Ray checks that a certificate names the box's address."""

    address: str = Field(min_length=1, description="IP address of this box at which the others reach its part of Ray")
    port: int = Field(RAY_PORT, ge=1, le=65535, description="of the cluster's store, where this box is the head")
    token: SecretReference = Field(min_length=1, description="env:NAME or file:/path, the same on every box")
    certificate: str = Field(min_length=1, description="this box's certificate, with its address")
    key: str = Field(min_length=1, description="the certificate's key")
    authority: str = Field(min_length=1, description="the authority that signed the certificates of all boxes")
    folder: str = Field(min_length=1, description="for Ray's files, of this account only: a short absolute path")
    mode: Literal["pinned", "dynamic"] = Field("pinned", description="dynamic: amounts are resources of Ray, too")
    warm_workers: int = Field(1, ge=1, le=1000, description="processes kept for tasks; the next ones start cold")
    headless_s: float = Field(60.0, ge=1, le=3600, description="without a head for so long this box's part ends")

    @model_validator(mode="after")
    def _fits(self) -> RayEngineSettings:
        try:
            ipaddress.ip_address(self.address)
        except ValueError:
            raise FieldProblem("address", "an IP address of this box") from None
        if self.token.startswith("secret:"):
            raise FieldProblem("token", "env:NAME or file:/path: the agent is no part of the appliance")
        if not self.folder.startswith("/") or len(self.folder) > _LONGEST_FOLDER:
            raise FieldProblem("folder", f"an absolute path of at most {_LONGEST_FOLDER} characters")
        return self


class KubernetesEngineSettings(Settings):
    """This box as a node of a Kubernetes cluster, whose pods do the fleet's jobs. A field may be left empty where the
    Helm chart sets a variable of the environment."""

    fleet: str = Field("", description="value of the label magpie.example/fleet of the nodes; empty: MAGPIE_FLEET")
    namespace: str = Field("", description="of the jobs' pods and the head's lease; empty: MAGPIE_NAMESPACE")
    node: str = Field("", description="name of the node that this box is; empty: MAGPIE_NODE_NAME")
    image: str = Field("", description="image of the jobs' pods, with Magpie in it; empty: MAGPIE_IMAGE")
    kubeconfig: str = Field("", description="file of the account; empty: the account of the pod that Magpie runs in")
    context: str = Field("", description="of the kubeconfig; empty: its current one")
    mode: Literal["pinned", "dynamic"] = Field(
        "pinned",
        description="pinned: pods are bound to their nodes by affinity. dynamic: amounts are resources of the nodes, "
        "too, which needs the right to patch nodes/status",
    )
    queue: str = Field("", description="queue of Kueue, where that is installed; empty: none")
    pending_s: float = Field(300.0, ge=1, le=86_400, description="a pod that has not begun after so long is lost")
    ttl_s: int = Field(86_400, ge=60, le=30 * 86_400, description="a pod is ended by its node after so long")

    @model_validator(mode="after")
    def _fits(self) -> KubernetesEngineSettings:
        if self.context and not self.kubeconfig:
            raise FieldProblem("context", "nothing, but with a kubeconfig")
        return self


class EngineSettings(Settings):
    """The engine that runs the fleet's jobs; the same kind on every box."""

    kind: Literal["local", "ray", "kubernetes"] = Field(
        "local", description="local: on the head's own box; ray: on all boxes; kubernetes: as pods on the boxes' nodes"
    )
    amounts: dict[str, Annotated[float, Field(ge=0, le=1e6)]] = Field(
        default_factory=lambda: {"cpu": 1.0}, max_length=50, description="resources that this box has for jobs"
    )
    folders: dict[Identifier, Annotated[str, Field(max_length=500, pattern="^/[^,:]*[^/,:]$")]] = Field(
        default_factory=dict,
        max_length=20,
        description="folders of this box, by name, in which programs of jobs may read and write: absolute paths. Any "
        "operator may have pictures in them labelled",
    )
    labels: dict[str, Annotated[str, Field(min_length=1, max_length=127)]] = Field(
        default_factory=dict, max_length=50, description="labels of this box (rack, site), for zones and avoidance"
    )
    ray: RayEngineSettings | None = None
    kubernetes: KubernetesEngineSettings | None = None

    @model_validator(mode="after")
    def _fits(self) -> EngineSettings:
        for name in self.amounts:
            try:
                check_resource("", name, physical=True)
            except InvalidValue as error:
                raise FieldProblem(f"amounts.{name}", error.allowed) from None
        for name in self.labels:
            if name == BOX_LABEL:
                raise FieldProblem(f"labels.{name}", "another label: every box is its own box")
        if self.kind == "ray" and self.ray is None:
            raise FieldProblem("ray", "address, token, certificate, key and authority of this box, with kind: ray")
        if self.kind != "ray" and self.ray is not None:
            raise FieldProblem("ray", "nothing, but with kind: ray")
        if self.kind == "kubernetes" and self.kubernetes is None:
            raise FieldProblem("kubernetes", "a section (it may be empty: {}), with kind: kubernetes")
        if self.kind != "kubernetes" and self.kubernetes is not None:
            raise FieldProblem("kubernetes", "nothing, but with kind: kubernetes")
        return self

    def box(self, name: str) -> FleetBox:
        """This box as the fleet's matcher has it."""
        return FleetBox(name, dict(self.amounts), dict(self.labels))


class JobTenantSettings(Settings):
    """A tenant of the fleet's jobs; others may name it as their parent."""

    name: str
    weight: float = Field(1.0, gt=0, le=1e9)
    parent: str | None = None


class JobQueueSettings(Settings):
    """A queue of jobs, in which no job overtakes another."""

    name: str
    slots: int | None = Field(None, ge=1, le=1_000_000, description="tasks that run at once; empty: any number")
    discipline: FleetDiscipline = "fifo"


class FleetJobsSettings(Settings):
    """How jobs share the boxes. Those of the head are in force, so they are the same on every box that may decide."""

    placement: Literal["spread", "pack"] = Field("spread", description="spread over the boxes, or on as few as may be")
    tenants: tuple[JobTenantSettings, ...] = Field((), max_length=200)
    queues: tuple[JobQueueSettings, ...] = Field((), max_length=200)
    keep: int = Field(200, ge=0, le=1000, description="jobs that are over and are still shown")

    @model_validator(mode="after")
    def _fits(self) -> FleetJobsSettings:
        for key in ("tenants", "queues"):
            names = [row.name for row in getattr(self, key)]
            for n, name in enumerate(names):
                _checked(f"{key}[{n}].name", name)
                if names.index(name) != n:
                    raise FieldProblem(f"{key}[{n}].name", f"each name once; {name!r} is there twice")
        parents = {tenant.name: tenant.parent for tenant in self.tenants}
        for n, tenant in enumerate(self.tenants):
            above, seen = tenant.parent, {tenant.name}
            while above is not None:
                if above not in parents or above in seen:
                    raise FieldProblem(f"tenants[{n}].parent", "the name of a tenant that is not below this one")
                seen.add(above)
                above = parents[above]
        return self

    def fleet_tenants(self) -> tuple[FleetTenant, ...]:
        """As the controller takes them."""
        return tuple(FleetTenant(t.name, t.weight, t.parent) for t in self.tenants)

    def fleet_queues(self) -> tuple[FleetQueue, ...]:
        """As the controller takes them."""
        return tuple(FleetQueue(q.name, q.slots, q.discipline) for q in self.queues)


def _checked(path: str, name: str) -> None:
    try:
        check_name(path, name)
    except InvalidValue as error:
        raise FieldProblem(path, error.allowed) from None
