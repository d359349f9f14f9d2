/** Tenants as GET /tenants tells them, and the codes of their shares in words. Shares and performance are parts (0-1). */

import type { SharingSettings, TenantAnswer, TenantSettings } from "../answers";
import { duration, percent } from "../format";
import type { Tone } from "./badge";

export type { SharingAnswer, SharingWhatIf, TenantCurve, TenantDetail, TenantHistory, TenantHistoryRow, TenantsAnswer } from "../answers";

export type Tenant = TenantAnswer;
export type Objective = TenantSettings["objective"];
export type SharingPolicyName = SharingSettings["policy"];

/** The policies that share the box among tenants, in words. */
export const SHARING_POLICIES: Record<SharingPolicyName, string> = {
  ew: "The least satisfied first: the greatest least utility",
  sw: "All together: the greatest mean utility",
  njc: "Without justified complaints: no tenant below what its entitlement would bring",
  fair: "Entitlements, whatever comes of them",
  minerva: "Minerva: in proportion to share over utility, for comparison",
  "greedy-ew": "Step by step from the better to the worse, for comparison",
};

export const METRICS: Record<Objective["metric"], string> = {
  within_slo: "Requests in time (served models)",
  accuracy: "Accuracy (cameras)",
};

export const UTILITIES: Record<Objective["utility"], string> = {
  linear: "In proportion",
  sqrt: "Small misses matter little (square root)",
  quadratic: "Small misses matter much (square)",
};

export const TENANT_STATES: Record<Tenant["state"], [string, Tone]> = {
  meets: ["Meets its goal", "good"],
  misses: ["Misses its goal", "bad"],
  unknown: ["Not measured lately", "off"],
};

/** Why what was learned of a tenant was forgotten. */
export const FORGOTTEN: Record<string, string> = {
  members: "it has other members",
  versions: "its models have other versions",
  table: "the latencies of its models were measured anew",
  device: "the device is another",
  objective: "its goal, or what counts as reached, is another",
  damaged: "what was kept could not be read",
};

const REST: Record<string, string> = { default: "All other models", "default-cameras": "All other cameras" };

/** The name of a tenant for people. */
export function tenantName(tenants: readonly Tenant[], id: string): string {
  return tenants.find((t) => t.id === id)?.name || REST[id] || id;
}

/** No share brings the goal, not even by the upper bound of what was learned. */
export function outOfReach({ share, low, best }: Tenant["demand"]): boolean {
  return best !== null && share === null && low === null;
}

/** "learned from 412 reports", "declared". */
export function sourceWords({ source, learned, settings }: Tenant): string {
  const reports = `${learned.reports.toLocaleString()} ${learned.reports === 1 ? "report" : "reports"}`;
  switch (source) {
    case "learned":
      return `learned from ${reports}`;
    case "profiled":
      return "profiled";
    case "proxy":
      return "by what it uses";
    case "declared":
      return settings.declared_demand === null ? "declared" : `declared: ${percent(settings.declared_demand)}`;
    case "held":
      return learned.reports > 0 ? `held; learned from ${reports}` : "held";
    default:
      return "entitlement";
  }
}

function joined(parts: string[]): string {
  return parts.length < 2 ? parts.join("") : `${parts.slice(0, -1).join(", ")} and ${parts.at(-1) ?? ""}`;
}

/** 2 %, 0.4 %: a digit where whole percents would tell something else. */
export function part(value: number): string {
  const whole = Math.abs(100 * value - Math.round(100 * value)) < 0.05;
  return percent(value, whole ? 0 : 1);
}

function spareWords(spare: number): string {
  return spare >= 0 ? `holds with ${part(spare)} to spare` : `is missed by ${part(-spare)}, and the others gain more`;
}

/** How much better than its goal a tenant does that gave; null: not known. */
function spareOf(tenants: readonly Tenant[], id: string): number | null {
  const giver = tenants.find((t) => t.id === id);
  if (giver === undefined) return null;
  return giver.reason.numbers["spare"] ?? (giver.performance === null ? null : giver.performance - giver.goal);
}

function moreWords(tenants: readonly Tenant[], moved: number, others: readonly string[]): string {
  const named = (id: string): string => tenantName(tenants, id);
  if (others.length === 0) return `${part(moved)} more.`;
  const spares = others.flatMap((id) => {
    const spare = spareOf(tenants, id);
    return spare === null ? [] : [`${others.length === 1 ? "its goal" : `the goal of ${named(id)}`} ${spareWords(spare)}`];
  });
  return `${part(moved)} from ${joined(others.map(named))}${spares.length > 0 ? `: ${joined(spares)}` : ""}.`;
}

/** Why a tenant has its share, from the code and its numbers (edge/core/tenants.py). */
export function reasonWords(tenant: Tenant, tenants: readonly Tenant[]): string {
  const { code, numbers, others } = tenant.reason;
  const n = (name: string): number => numbers[name] ?? 0;
  switch (code) {
    case "entitlement":
      return "Nothing is known yet: it has its entitlement.";
    case "profiled":
      return `Nothing was measured yet: by their profiles its models need ${part(n("need"))}.`;
    case "proxy":
      return `Nothing was measured yet: it used ${part(n("utilisation"))} of its share and shall use ${part(n("target"))}, so ${part(n("demand"))} would do.`;
    case "declared":
      return `Nothing was measured yet: it says to need ${part(n("demand"))}, which is believed in part.`;
    case "no_traffic":
      return "Nothing was measured in the last interval: it holds.";
    case "front_down":
      return `The serving front was away for ${duration(n("down_s"))}${n("lost") > 0 ? `, and ${n("lost")} open requests failed` : ""}: it holds.`;
    case "kept":
      return "No other share is better by enough.";
    case "more":
      return moreWords(tenants, n("moved"), others);
    case "less":
      return `${part(n("moved"))} ${others.length > 0 ? `to ${joined(others.map((id) => tenantName(tenants, id)))}` : "less"}${numbers["spare"] === undefined ? "" : `: its own goal ${spareWords(numbers["spare"])}`}.`;
    case "floor":
      return `Raised by ${part(n("raised"))} to ${part(n("floor"))}, the least that it has.`;
    case "dwell":
      return `It moved ${duration(n("since_s"))} ago and rests for ${duration(n("dwell_s"))}.`;
    case "window":
      return "Shares of cameras move when a window ends.";
    case "one":
      return "It has the box alone.";
  }
}
