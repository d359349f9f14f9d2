/** A list that REST tells newest first, a page at a time. */

import { useEffect, useRef, useState } from "preact/hooks";

import { ask } from "../api";
import { useAsked } from "./asking";

export interface Paged<T> {
  /** Null until the first answer. */
  rows: T[] | null;
  error: unknown;
  /** Null: there are no older ones. */
  older: (() => Promise<void>) | null;
  again: () => void;
}

/** `path` has its filters but neither `limit` nor `before`. The first page is asked again when `when` changes, and every
 * `every_s` seconds; older pages stay as they were. */
export function usePaged<T extends { id: number | string | null }>(path: string, size: number, when: unknown = null, every_s: number | null = null): Paged<T> {
  const sign = path.includes("?") ? "&" : "?";
  const first = useAsked<T[]>(`${path}${sign}limit=${size}`, when, every_s);
  const [rest, setRest] = useState<{ path: string; rows: T[]; end: boolean }>({ path, rows: [], end: false });
  const [failure, setFailure] = useState<unknown>(null);
  const now = useRef(path);
  now.current = path;

  useEffect(() => {
    setRest({ path, rows: [], end: false });
    setFailure(null);
  }, [path]);

  const mine = rest.path === path ? rest : { path, rows: [], end: false };
  const newest = first.value;
  // Rows that the first page has moved past are kept, so that nothing is missing between the two.
  const seen = new Set(newest?.map((row) => row.id));
  const rows = newest === null ? null : [...newest, ...mine.rows.filter((row) => !seen.has(row.id))];
  const more = newest !== null && !mine.end && (mine.rows.length > 0 || newest.length === size);
  const last = rows?.at(-1)?.id;

  const older = async (): Promise<void> => {
    try {
      const found = await ask<T[]>(`${path}${sign}limit=${size}&before=${last}`);
      if (now.current !== path) return;
      setFailure(null);
      setRest({ path, rows: [...(rows ?? []), ...found], end: found.length < size });
    } catch (error) {
      if (now.current === path) setFailure(error);
    }
  };
  return { rows, error: first.error ?? failure, older: more ? older : null, again: first.again };
}
