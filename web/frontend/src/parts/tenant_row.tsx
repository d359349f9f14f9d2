/** Parts of a tenant's row that its own page shows, too. */

import { duration, percent } from "../format";
import { Badge } from "./badge";
import type { Tenant } from "./tenants";
import { outOfReach, TENANT_STATES, tenantName } from "./tenants";

export interface Actions {
  onChange: (tenant: Tenant) => void;
  onRemove: (tenant: Tenant) => void;
}

/** The bar is the share held, the line the entitlement, the dark foot the floor; the words say the same. */
export function ShareBar({ tenant, whole }: { tenant: Tenant; whole: number }) {
  const { held, entitlement, floor, raised_to_floor } = tenant.share;
  const scale = Math.max(whole, held, entitlement, 0.01);
  const at = (value: number): string => `${Math.min(100, (100 * value) / scale)}%`;
  return (
    <div class="share-bar">
      <span class="share-track" aria-hidden="true">
        <span class={tenant.state === "misses" ? "share-held missed" : "share-held"} style={{ width: at(held) }} />
        <span class="share-floor" style={{ width: at(floor) }} />
        <span class="share-right" style={{ left: at(entitlement) }} />
      </span>
      <span class="small">
        {percent(held)}, {percent(entitlement)}
        <span class="quiet">; at least {percent(floor)}</span>
        {raised_to_floor > 0.0005 && <span class="quiet">, raised by {percent(raised_to_floor, 1)}</span>}
      </span>
    </div>
  );
}

export function State({ tenant }: { tenant: Tenant }) {
  const [words, tone] = TENANT_STATES[tenant.state];
  return (
    <div>
      <Badge tone={tone}>{words}</Badge>
      {tenant.missed_s > 0 && tenant.state === "misses" && <p class="small quiet">for {duration(tenant.missed_s)}</p>}
      {outOfReach(tenant.demand) && tenant.demand.best !== null && <p class="small quiet">out of reach: {percent(tenant.demand.best)} at best</p>}
    </div>
  );
}

export function RowActions({ tenant, tenants, actions }: { tenant: Tenant; tenants: Tenant[]; actions: Actions }) {
  const name = tenantName(tenants, tenant.id);
  return (
    <span class="row-actions">
      <button type="button" aria-label={`Change ${name}`} onClick={() => actions.onChange(tenant)}>
        Change
      </button>
      {!tenant.implicit && (
        <button type="button" aria-label={`Remove ${name}`} onClick={() => actions.onRemove(tenant)}>
          Remove
        </button>
      )}
    </span>
  );
}
