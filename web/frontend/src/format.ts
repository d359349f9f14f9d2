/** Numbers and times as people read them. */

export function percent(value: number | null | undefined, digits = 0): string {
  return value === null || value === undefined ? "–" : `${(100 * value).toFixed(digits)}\u00a0%`;
}

export function points(value: number): string {
  const rounded = Math.round(1000 * value) / 10;
  return `${rounded > 0 ? "+" : rounded < 0 ? "−" : "±"}${Math.abs(rounded).toFixed(1)} pts`;
}

export function clock(utc_s: number): string {
  return new Date(1000 * utc_s).toLocaleTimeString([], { hour12: false });
}

export function left(seconds: number): string {
  const whole = Math.max(0, Math.ceil(seconds));
  if (whole >= 3600) return `${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")} min`;
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

/** A model's id without its camera's name: "w3-2-1790000000" or "first-1789999000". */
export function shortVersion(version: string, camera: string): string {
  const rest = version.startsWith(`${camera}-`) ? version.slice(camera.length + 1) : version;
  const window = /^w(\d+)-/.exec(rest);
  if (window) return `from window ${window[1]}`;
  return rest.startsWith("first") ? "first model" : rest;
}

/** A retraining configuration's id in words where it can be told. */
export function config(id: string): string {
  const found = /^(head|last_stage|all)-e(\d+)-b(\d+)-d([\d.]+)-/.exec(id);
  if (!found) return id;
  const layers = { head: "head only", last_stage: "last stage", all: "all layers" }[found[1] as "head"] ?? found[1];
  return `${layers}, ${found[2]} epochs, ${Math.round(100 * Number(found[4]))}\u00a0% of the data`;
}
