/** Something asked of REST, and asked again when it may have changed. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";

import { ask } from "../api";

export interface Asked<T> {
  /** The newest answer; it stays while a newer one is waited for, and is gone with another `path`. */
  value: T | null;
  error: unknown;
  again: () => void;
}

/** The answer of GET `path` (null: nothing is asked). Asked again when `when` changes, and every `every_s` seconds. */
export function useAsked<T>(path: string | null, when: unknown = null, every_s: number | null = null): Asked<T> {
  const [value, setValue] = useState<{ path: string; value: T } | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [tries, setTries] = useState(0);
  const newest = useRef(0);
  const again = useCallback(() => setTries((n) => n + 1), []);

  useEffect(() => {
    if (path === null) return undefined;
    const number = ++newest.current;
    let timer = 0;
    let wanted = true;
    const load = async (): Promise<void> => {
      try {
        const answer = await ask<T>(path);
        if (newest.current !== number || !wanted) return;
        setValue({ path, value: answer });
        setError(null);
      } catch (failure) {
        if (newest.current === number && wanted) setError(failure);
      }
      if (every_s !== null && wanted) timer = window.setTimeout(() => void load(), 1000 * every_s);
    };
    void load();
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [path, when, every_s, tries]);

  useEffect(() => setError(null), [path]);
  return { value: value !== null && value.path === path ? value.value : null, error, again };
}
