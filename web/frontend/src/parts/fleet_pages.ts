/** A list of all boxes, newest first, a page at a time by the cursor of each answer. */

import { useEffect, useRef, useState } from "preact/hooks";

import type { AskedBoxAnswer, FleetAlarmsAnswer, FleetAuditAnswer, FleetEventsAnswer, FleetObjectsAnswer } from "../answers";
import { ask } from "../api";
import { useAsked } from "./asking";

export type FleetList = FleetAlarmsAnswer | FleetAuditAnswer | FleetEventsAnswer | FleetObjectsAnswer;
export type RowOf<P extends FleetList> = P["rows"][number];

export interface FleetPaged<P extends FleetList> {
  /** Null until the first answer. */
  rows: RowOf<P>[] | null;
  /** The outcome of the newest question, by box. */
  boxes: readonly AskedBoxAnswer[];
  error: unknown;
  /** Null: there are no older ones. */
  older: (() => Promise<void>) | null;
  again: () => void;
}

/** `path` has its filters but no cursor. */
export function useFleetPaged<P extends FleetList>(path: string): FleetPaged<P> {
  const first = useAsked<P>(path);
  const [rest, setRest] = useState<{ of: P | null; pages: P[] }>({ of: null, pages: [] });
  const [failure, setFailure] = useState<unknown>(null);
  const now = useRef<P | null>(null);
  now.current = first.value;

  useEffect(() => setFailure(null), [first.value]);

  const pages = first.value === null ? [] : [first.value, ...(rest.of === first.value ? rest.pages : [])];
  const last = pages.at(-1);

  const older = async (): Promise<void> => {
    if (last === undefined || last.next === null) return;
    try {
      const found = await ask<P>(`${path}${path.includes("?") ? "&" : "?"}cursor=${encodeURIComponent(last.next)}`);
      if (now.current !== first.value) return;
      setFailure(null);
      setRest({ of: first.value, pages: [...pages.slice(1), found] });
    } catch (error) {
      setFailure(error);
    }
  };
  return {
    rows: first.value === null ? null : pages.flatMap((p) => [...p.rows] as RowOf<P>[]),
    boxes: last?.boxes ?? [],
    error: first.error ?? failure,
    older: last !== undefined && last.next !== null ? older : null,
    again: first.again,
  };
}
