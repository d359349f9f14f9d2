/** Numbers, times, models and configurations as people read them. */

import type { ConfigAnswer, VersionAnswer } from "./answers";

export function percent(value: number | null | undefined, digits = 0): string {
  return value === null || value === undefined ? "–" : `${(100 * value).toFixed(digits)}\u00a0%`;
}

export function points(value: number): string {
  const rounded = Math.round(1000 * value) / 10;
  return `${rounded > 0 ? "+" : rounded < 0 ? "−" : "±"}${Math.abs(rounded).toFixed(1)} pts`;
}

export function clock(utc_s: number, seconds = true): string {
  const form = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } as const;
  return new Date(1000 * utc_s).toLocaleTimeString([], seconds ? { ...form, second: "2-digit" } : form);
}

export function left(seconds: number): string {
  const whole = Math.max(0, Math.ceil(seconds));
  if (whole >= 3600) return `${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")} min`;
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

/** A version of a camera's student: where it came from. Of old records that is not known. */
export interface Version {
  id: string;
  origin: VersionAnswer["origin"] | null;
  /** The window whose pictures trained it. */
  window: number | null;
}

const ORIGINS: Record<VersionAnswer["origin"], [short: (window: number | null) => string, whole: (window: number | null) => string]> = {
  first: [() => "first model", () => "the first model"],
  retrained: [(w) => `from window ${w ?? "?"}`, (w) => `the model from window ${w ?? "?"}`],
  sibling: [() => "from a sibling camera", () => "the model from a sibling camera"],
  download: [(w) => `download, again from window ${w ?? "?"}`, (w) => `the download, again from window ${w ?? "?"}`],
};

/** Where a model came from, in short: "from window 3"; its id where that is not known. */
export function shortVersion({ id, origin, window }: Version): string {
  return origin === null ? id : ORIGINS[origin][0](window);
}

/** "the first model", "the model from window 3". */
export function wholeVersion({ id, origin, window }: Version): string {
  return origin === null ? id : ORIGINS[origin][1](window);
}

const LAYERS: Record<ConfigAnswer["layers"], string> = { head: "head only", last_stage: "last stage", all: "all layers" };

/** A retraining configuration in words; its id where its parts are not known. */
export function config(id: string, parts: ConfigAnswer | null | undefined): string {
  if (!parts) return id;
  const { layers, epochs, data_fraction } = parts;
  return `${LAYERS[layers]}, ${epochs} epochs, ${Math.round(100 * data_fraction)}\u00a0% of the data`;
}

/** Date and time of day; only the time of day if it is today. */
export function moment(utc_s: number): string {
  const then = new Date(1000 * utc_s);
  const today = then.toDateString() === new Date().toDateString();
  if (today) return clock(utc_s);
  return `${then.toLocaleDateString([], { year: "numeric", month: "short", day: "numeric" })}, ${clock(utc_s, false)}`;
}

/** How long ago: "3 min ago". */
export function ago(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole}\u00a0s ago`;
  if (whole < 3600) return `${Math.floor(whole / 60)}\u00a0min ago`;
  if (whole < 86400) return `${Math.floor(whole / 3600)}\u00a0h ago`;
  const days = Math.floor(whole / 86400);
  return `${days}\u00a0${days === 1 ? "day" : "days"} ago`;
}

/** "1 camera", "3 cameras". */
export function counted(count: number, one: string, several = `${one}s`): string {
  return `${count.toLocaleString()} ${count === 1 ? one : several}`;
}

/** A size on disk: "1.4 GB". */
export function bytes(count: number): string {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let value = count;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)}\u00a0${units[unit]}`;
}

/** A length of time: "1 h 05 min", "42 s". */
export function duration(seconds: number): string {
  if (seconds < 10) return `${seconds.toFixed(1)}\u00a0s`;
  const whole = Math.round(seconds);
  if (whole < 120) return `${whole}\u00a0s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}\u00a0min ${String(whole % 60).padStart(2, "0")}\u00a0s`;
  return `${Math.floor(whole / 3600)}\u00a0h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")}\u00a0min`;
}
