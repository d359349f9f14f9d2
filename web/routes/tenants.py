"""Routes of tenants: the share that each has of the box, what came of it, and how they share it."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Depends, Path, Query, Response

from edge.appliance.answers.tenants import (
    SharingAnswer,
    SharingWhatIf,
    TenantAnswer,
    TenantDetail,
    TenantHistory,
    TenantsAnswer,
)
from edge.appliance.tenants_service import TenantsService
from edge.core.errors import NotFound
from edge.settings import parse
from web import limits
from web.bodies import AskedSharing
from web.examples import tenants as examples
from web.parts import Body, Caller, Service, Who, example, takes
from web.rest_router import rest_router
from web.roles import EVERY_OPERATOR, VIEWER

router = rest_router("tenants")
ROLES: Final = {
    "GET /tenants": VIEWER,
    "POST /tenants": EVERY_OPERATOR,
    "GET /tenants/history": VIEWER,
    "GET /tenants/{tenant}": VIEWER,
    "PATCH /tenants/{tenant}": EVERY_OPERATOR,
    "DELETE /tenants/{tenant}": EVERY_OPERATOR,
    "GET /sharing": VIEWER,
    "PATCH /sharing": EVERY_OPERATOR,
    "POST /sharing/what-if": EVERY_OPERATOR,
}


async def _tenants(service: Service) -> TenantsService:
    return service.tenants


Tenants = Annotated[TenantsService, Depends(_tenants)]
TenantId = Annotated[str, Path(description="id of a tenant", max_length=63, examples=["gate"])]
OfTenant = Annotated[str | None, Query(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$", description="only of this tenant")]


@router.get("/tenants", responses=example(examples.TENANTS))
async def tenants(service: Tenants, caller: Caller) -> TenantsAnswer:
    """Every tenant with its share, what it reaches against its goal, and why it has that share. A user of some cameras
    sees the tenants all of whose cameras they may see."""
    return limits.whole(caller, service.all())


@router.post(
    "/tenants",
    status_code=201,
    responses={201: example(examples.TENANT, "the tenant as added")[200]},
    openapi_extra=takes("TenantSettings", examples.TENANT_SETTINGS),
)
async def add_tenant(body: Body, service: Tenants, by: Who, response: Response) -> TenantAnswer:
    """Add a tenant; it is in force at once, and has its entitlement until something was measured."""
    added = await service.add(body, by)
    response.headers["location"] = f"/api/v1/tenants/{added.id}"
    return added


@router.get("/tenants/history", responses=example(examples.HISTORY))
async def tenants_history(service: Tenants, caller: Caller, tenant: OfTenant = None) -> TenantHistory:
    """Shares and performance of the last day in means of five minutes (of cameras: of a window), oldest first."""
    mine = limits.whole(caller, service.all())
    if tenant is not None and all(tenant != t.id for t in mine.tenants):
        raise NotFound(f"tenant {tenant} does not exist")
    return limits.tenant_history(caller, service.history(tenant), mine)


@router.get("/tenants/{tenant}", responses=example(examples.TENANT_DETAIL))
async def one_tenant(tenant: TenantId, service: Tenants, caller: Caller) -> TenantDetail:
    """One tenant with its learned curve, the recent reports, and the share that it has now."""
    mine = limits.rows(caller, (service.one(tenant),))
    if not mine:
        raise NotFound(f"tenant {tenant} does not exist")
    return mine[0]


@router.patch(
    "/tenants/{tenant}",
    responses=example(examples.TENANT),
    openapi_extra=takes("TenantPatch", {"entitlement": 3, "objective": {"goal": 0.95}}),
)
async def change_tenant(tenant: TenantId, body: Body, service: Tenants, by: Who) -> TenantAnswer:
    """Change a tenant by a JSON merge patch (RFC 7396); null sets a field back to its default. One of the two default
    tenants gets settings of its own by this."""
    return await service.change(tenant, body, by)


@router.delete("/tenants/{tenant}", status_code=204, response_class=Response)
async def remove_tenant(tenant: TenantId, service: Tenants, by: Who) -> None:
    """Forget a tenant. Its members belong to the default tenant from now on."""
    await service.remove(tenant, by)


@router.get("/sharing", responses=example(examples.SHARING))
async def sharing(service: Tenants, caller: Caller) -> SharingAnswer:
    """How tenants share the box: the settings, when shares were decided, and the welfare now."""
    return limits.whole(caller, service.sharing())


@router.patch(
    "/sharing",
    responses=example(examples.SHARING),
    openapi_extra=takes("SharingPatch", {"policy": "njc", "largest_step": 0.03}),
)
async def change_sharing(body: Body, service: Tenants, by: Who) -> SharingAnswer:
    """Change how tenants share the box by a JSON merge patch (RFC 7396): in force at once, kept over restarts."""
    return await service.change_sharing(body, by)


@router.post(
    "/sharing/what-if",
    responses=example(examples.SHARING_WHAT_IF),
    openapi_extra=takes("AskedSharing", {"policy": "fair"}),
)
async def sharing_what_if(body: Body, service: Tenants) -> SharingWhatIf:
    """The recorded day as it was, and as it is expected to be under another policy. Nothing is changed."""
    return await service.what_if(parse(AskedSharing, body).policy)
