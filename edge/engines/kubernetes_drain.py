"""A box is drained: no pod comes any more, and those of the fleet are asked to leave."""

from __future__ import annotations

from edge.engines.kubernetes_api import ApiRefusal, KubernetesApi, of_box
from edge.engines.kubernetes_patches import cordon


def drain_node(api: KubernetesApi, node: str, pods: tuple[str, ...], *, away: bool = True) -> tuple[str, ...]:
    """Cordon a node, then evict these pods; with `away` False it takes pods again and nothing leaves. Answers with the
    pods that a disruption budget keeps. Raises NotFound, Unavailable."""
    try:
        api.patch_node(node, cordon(away=away))
        return tuple(pod for pod in pods if not api.evict_pod(pod)) if away else ()
    except ApiRefusal as refusal:
        raise of_box(refusal, node, f"to drain {node}") from None
