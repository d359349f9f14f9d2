/** Where one is: the part of the address behind "#", as "#/camera/junction?tab=models". */

import { useLayoutEffect, useState } from "preact/hooks";

export interface Route {
  /** First part of the path: "wall", "camera", "windows", ... */
  page: string;
  /** What stands behind it, decoded: ["junction"]. */
  rest: string[];
  query: URLSearchParams;
}

export const HOME = "#/wall";

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // not an address of ours; the page says that it does not exist
  }
}

/** The route of an address' hash; the wall if it names none. */
export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [page, ...rest] = path.split("/").filter(Boolean).map(decoded);
  return { page: page ?? "wall", rest, query: new URLSearchParams(query) };
}

/** The hash that leads to a page: href("camera", "junction") is "#/camera/junction". */
export function href(page: string, ...rest: (string | number)[]): string {
  return `#/${[page, ...rest].map((part) => encodeURIComponent(part)).join("/")}`;
}

/** Go there; `replace` leaves no step to go back to. */
export function go(hash: string, replace = false): void {
  if (replace) location.replace(hash);
  else location.hash = hash;
}

/** Asked before another route is shown: true keeps the page where it is. */
type Guard = (event: HashChangeEvent) => boolean;
const guards = new Set<Guard>();
const kept = new WeakSet<Event>();

/** Ask `guard` before another route is shown; the answer takes that back. */
export function addGuard(guard: Guard): () => void {
  guards.add(guard);
  return () => guards.delete(guard);
}

/** Whether the page stays; all listeners of the event get the same answer. */
function stays(event: HashChangeEvent): boolean {
  if (!kept.has(event) && [...guards].some((guard) => guard(event))) kept.add(event);
  return kept.has(event);
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => parseRoute(location.hash));
  // Not after the next paint: an address that changes until then would be missed.
  useLayoutEffect(() => {
    const changed = (event: HashChangeEvent): void => {
      if (!stays(event)) setRoute(parseRoute(location.hash));
    };
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}
