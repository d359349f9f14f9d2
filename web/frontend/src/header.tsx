/** Site, window, time left, policy, and whether all is well. */

import type { Complaint, Health, Overview } from "./api";
import { clock, left } from "./format";
import type { Theme } from "./store";

const PHASES: Record<string, string> = {
  idle: "waiting for cameras",
  preparing: "labelling and profiling",
  running: "serving and retraining",
};

interface Props {
  overview: Overview | null;
  health: Health | null;
  now_s: number;
  theme: Theme;
  onTheme: (theme: Theme) => void;
}

export function Header({ overview, health, now_s, theme, onTheme }: Props) {
  const window = overview?.window;
  const until = window ? Math.max(0, window.end_utc_s - now_s) : 0;
  const done = window && window.length_s > 0 ? Math.min(1, Math.max(0, 1 - until / window.length_s)) : 0;
  return (
    <header class="top">
      <div class="brand">
        <svg viewBox="0 0 32 32" width="30" height="30" aria-hidden="true">
          <rect width="32" height="32" rx="7" fill="var(--mark)" />
          <path d="M5 23 L12 14 L17 18 L27 7" fill="none" stroke="#35c2a5" stroke-width="3.4" stroke-linecap="round" stroke-linejoin="round" />
          <circle cx="27" cy="7" r="3" fill="#f4f7f8" />
        </svg>
        <div>
          <h1>{overview?.site ?? "Magpie"}</h1>
          <p class="quiet">Magpie{health && health.version !== "unknown" ? ` ${health.version}` : ""}</p>
        </div>
      </div>
      {window && overview && (
        <div class="window">
          <p>
            <strong>Window {window.number}</strong>
            <span class="quiet">{PHASES[window.phase] ?? window.phase}</span>
            <span class="quiet policy-too">{overview.policy}</span>
            <span class="time">{left(until)} left</span>
          </p>
          <progress value={done} max={1} aria-label={`Window ${window.number}`} />
        </div>
      )}
      <div class="right">
        {overview && (
          <p class="policy">
            <span class="quiet">Policy</span> {overview.policy}
          </p>
        )}
        {health && <span class={`badge ${health.ready ? (health.reasons.length > 0 ? "wait" : "good") : "bad"}`}>{status(health)}</span>}
        <label class="theme">
          <span class="hidden">Colours</span>
          <select value={theme} onChange={(e) => onTheme(e.currentTarget.value as Theme)}>
            <option value="system">System</option>
            <option value="light">Light</option>
            <option value="dark">Dark</option>
          </select>
        </label>
      </div>
    </header>
  );
}

function status(health: Health): string {
  if (!health.ready) return "Not ready";
  return health.reasons.length > 0 ? "Ready, with problems" : "Ready";
}

interface BannerProps {
  overview: Overview | null;
  health: Health | null;
  silentSince: number | null;
  liveLost: boolean;
  now_s: number;
}

/** Everything that the operator should know before looking at pictures. */
export function Banner({ overview, health, silentSince, liveLost, now_s }: BannerProps) {
  if (silentSince !== null) {
    return (
      <div class="banner bad" role="alert">
        <strong>The appliance does not answer</strong> since {clock(silentSince / 1000)}. What you see is old. Trying again…
      </div>
    );
  }
  const reasons = health?.reasons ?? [];
  const known = new Set(reasons.map((r) => r.message));
  const recent = 2 * (overview?.window.length_s ?? 300);
  const complaints = (overview?.complaints ?? [])
    .filter((c) => !known.has(c.message) && now_s - (c.utc_s ?? now_s) < recent)
    .reverse();
  if (reasons.length === 0 && complaints.length === 0 && !liveLost) return null;
  return (
    <div class={`banner ${health && !health.ready ? "bad" : "wait"}`} role="status">
      {health && !health.ready && <strong>Not ready</strong>}
      <ul>
        {liveLost && <li>Live pictures are interrupted; connecting again…</li>}
        {[...reasons, ...complaints].slice(0, 6).map((c: Complaint) => (
          <li key={`${c.code}-${c.message}`}>
            {c.message}
            {c.utc_s !== undefined && <span class="quiet"> at {clock(c.utc_s)}</span>}
          </li>
        ))}
      </ul>
    </div>
  );
}
