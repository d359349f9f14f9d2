/** Site, navigation, the open window, whether all is well, and who is logged in. */

import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import type { Health, Me, Overview, Reason } from "./api";
import { clock, left } from "./format";
import { PAGES } from "./pages/index";
import { Badge } from "./parts/badge";
import { Icon } from "./parts/icon";
import { PasswordDialog } from "./parts/password";
import { href } from "./router";
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
  /** Name of the page shown. */
  page: string;
  me: Me;
  theme: Theme;
  onTheme: (theme: Theme) => void;
  onLogOut: () => Promise<void>;
}

export function Header({ overview, health, now_s, page, me, theme, onTheme, onLogOut }: Props) {
  return (
    <header class="top">
      <a class="brand" href={href("wall")}>
        <Mark />
        <span>
          <span class="site">{overview?.site ?? "Magpie"}</span>
          <span class="quiet">Magpie{health?.version && health.version !== "unknown" ? ` ${health.version}` : ""}</span>
          <span class="hidden">, all cameras</span>
        </span>
      </a>
      <nav class="pages" aria-label="Pages">
        {PAGES.filter((p) => p.title !== undefined).map((p) => (
          <a key={p.name} href={href(p.name)} aria-current={p.name === page ? "page" : undefined}>
            <Icon name={p.name} size={18} />
            {p.title}
          </a>
        ))}
      </nav>
      {overview && <WindowNow overview={overview} now_s={now_s} />}
      {health && (
        <Badge tone={health.ready ? (health.reasons.length > 0 ? "wait" : "good") : "bad"}>
          <span>
            {health.ready ? "Ready" : "Not ready"}
            {health.ready && health.reasons.length > 0 && <span class="status-more">, with problems</span>}
          </span>
        </Badge>
      )}
      <UserMenu me={me} theme={theme} onTheme={onTheme} onLogOut={onLogOut} />
    </header>
  );
}

export function Mark({ size = 30 }: { size?: number }) {
  return (
    <svg viewBox="0 0 32 32" width={size} height={size} aria-hidden="true" focusable="false">
      <rect width="32" height="32" rx="7" fill="var(--mark)" />
      <path d="M5 23 L12 14 L17 18 L27 7" fill="none" stroke="#35c2a5" stroke-width="3.4" stroke-linecap="round" stroke-linejoin="round" />
      <circle cx="27" cy="7" r="3" fill="#f4f7f8" />
    </svg>
  );
}

function WindowNow({ overview, now_s }: { overview: Overview; now_s: number }) {
  const window = overview.window;
  const until = Math.max(0, window.end_utc_s - now_s);
  const done = window.length_s > 0 ? Math.min(1, Math.max(0, 1 - until / window.length_s)) : 0;
  const phase = PHASES[window.phase] ?? window.phase;
  return (
    <div class="window-now">
      <p>
        <strong>Window {window.number}</strong>
        <span class="quiet phase">{phase}</span>
        <span class="time">{left(until)} left</span>
      </p>
      <progress value={done} max={1} aria-label={`Retraining window ${window.number}: ${phase}`} />
    </div>
  );
}

interface MenuProps {
  me: Me;
  theme: Theme;
  onTheme: (theme: Theme) => void;
  onLogOut: () => Promise<void>;
}

type Place = RefObject<HTMLElement | null>;

/** Leaves an open menu when the pointer or the focus goes elsewhere, and at Escape: then its button has the focus. */
function useLeaving(open: boolean, place: Place, button: Place, onLeave: () => void): void {
  useEffect(() => {
    if (!open) return undefined;
    const leave = (event: Event): void => {
      if (event.target instanceof Node && !place.current?.contains(event.target)) onLeave();
    };
    const escape = (event: KeyboardEvent): void => {
      if (event.key !== "Escape") return;
      onLeave();
      button.current?.focus();
    };
    document.addEventListener("pointerdown", leave);
    document.addEventListener("focusin", leave);
    document.addEventListener("keydown", escape);
    return () => {
      document.removeEventListener("pointerdown", leave);
      document.removeEventListener("focusin", leave);
      document.removeEventListener("keydown", escape);
    };
  }, [open]);
}

function UserMenu({ me, theme, onTheme, onLogOut }: MenuProps) {
  const [open, setOpen] = useState(false);
  const [password, setPassword] = useState(false);
  const place = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);

  useLeaving(open, place, button, () => setOpen(false));

  return (
    <div class="user" ref={place}>
      <button
        ref={button}
        type="button"
        aria-expanded={open}
        aria-controls="user-menu"
        aria-label={me.kind === "open" ? "Appearance" : `${me.name}: account and appearance`}
        onClick={() => setOpen(!open)}
      >
        <Icon name="user" size={18} />
        {me.kind !== "open" && <span class="name">{me.name}</span>}
        <Icon name="down" size={12} />
      </button>
      {open && (
        <Menu
          me={me}
          theme={theme}
          onTheme={onTheme}
          onLogOut={onLogOut}
          onPassword={() => {
            // Its button goes with the menu: the dialog gives the focus back to what stays.
            button.current?.focus();
            setOpen(false);
            setPassword(true);
          }}
        />
      )}
      {password && <PasswordDialog me={me} onClose={() => setPassword(false)} />}
    </div>
  );
}

function Menu({ me, theme, onTheme, onLogOut, onPassword }: MenuProps & { onPassword: () => void }) {
  return (
    <div class="menu" id="user-menu">
      {me.kind !== "open" && (
        <p>
          <strong>{me.name}</strong>
          <br />
          <span class="quiet">
            {me.role}
            {me.cameras !== null && `, ${me.cameras.length} ${me.cameras.length === 1 ? "camera" : "cameras"}`}
            {me.tenants !== null && `, ${me.tenants.length} ${me.tenants.length === 1 ? "tenant" : "tenants"}`}
          </span>
        </p>
      )}
      <label>
        Colours
        <select value={theme} onChange={(e) => onTheme(e.currentTarget.value as Theme)}>
          <option value="system">As the system</option>
          <option value="light">Light</option>
          <option value="dark">Dark</option>
        </select>
      </label>
      {me.kind === "session" && (
        <>
          <button type="button" onClick={onPassword}>
            Change password
          </button>
          <button type="button" onClick={() => void onLogOut()}>
            Log out
          </button>
        </>
      )}
    </div>
  );
}

interface BannerProps {
  overview: Overview | null;
  health: Health | null;
  silentSince: number | null;
  liveLost: boolean;
  now_s: number;
}

const SHOWN = 4;

/** A reason, or a complaint, which tells when it was made. */
type Listed = Reason & { utc_s?: number };

/** Complaints that every window may bring anew, with other numbers. */
const EVERY_WINDOW: ReadonlySet<string> = new Set(["window_too_short"]);

/** Of complaints that every window may bring the newest, with how many came before. */
function newest(complaints: Listed[]): (Listed & { before: number })[] {
  const kept = new Map<string, Listed & { before: number }>();
  const made = (c: Listed): number => c.utc_s ?? 0;
  for (const c of complaints) {
    const key = EVERY_WINDOW.has(c.code) ? `${c.code} ${c.camera ?? ""}` : `${c.code} ${c.camera ?? ""} ${c.message}`;
    const other = kept.get(key);
    if (other === undefined) kept.set(key, { ...c, before: 0 });
    else kept.set(key, { ...(made(c) > made(other) ? c : other), before: other.before + 1 });
  }
  return [...kept.values()];
}

/** Everything that the operator should know before looking at pictures. */
export function Banner({ overview, health, silentSince, liveLost, now_s }: BannerProps) {
  const [all, setAll] = useState(false);
  if (silentSince !== null) {
    return (
      <div class="banner bad" role="alert">
        <Icon name="bad" size={18} />
        <p>
          <strong>The appliance does not answer</strong> since {clock(silentSince / 1000)}. This page shows the last state. Trying again…
        </p>
      </div>
    );
  }
  const reasons = health?.reasons ?? [];
  const sentence = (r: Reason): string => `${r.camera ?? ""} ${r.message}`;
  const known = new Set(reasons.map(sentence));
  const named = (id: string): string => overview?.cameras.find((c) => c.id === id)?.name ?? id;
  const recent = 2 * (overview?.window.length_s ?? 300);
  const complaints = (overview?.complaints ?? [])
    .filter((c) => !known.has(sentence(c)) && now_s - (c.utc_s ?? now_s) < recent)
    .reverse();
  const listed = newest([...reasons, ...complaints]);
  if (listed.length === 0 && !liveLost) return null;
  const ready = health?.ready ?? true;
  return (
    <div class={`banner ${ready ? "wait" : "bad"}`} role="status">
      <Icon name={ready ? "wait" : "bad"} size={18} />
      <div>
        {!ready && <strong>Not ready</strong>}
        <ul>
          {liveLost && <li>Live pictures are interrupted; connecting again…</li>}
          {(all ? listed : listed.slice(0, SHOWN)).map((c) => (
            <li key={`${c.code} ${sentence(c)}`}>
              {c.camera !== null && <b>{named(c.camera)}: </b>}
              {c.message}
              {c.before > 0 && <span class="quiet"> (and {c.before} before it)</span>}
              {c.utc_s !== undefined && <span class="quiet"> at {clock(c.utc_s)}</span>}
            </li>
          ))}
        </ul>
        {listed.length > SHOWN && (
          <button type="button" class="link" aria-expanded={all} onClick={() => setAll(!all)}>
            {all ? "Show fewer" : `Show ${listed.length - SHOWN} more`}
          </button>
        )}
      </div>
    </div>
  );
}
