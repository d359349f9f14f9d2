/** Drawing the outline of a new zone, one corner after another. Edges that would cross are refused. */

import type { TargetedPointerEvent } from "preact";
import { useState } from "preact/hooks";

import type { Surface } from "./place_editor";
import { WIDE, drawnPoints, useKeysWhile } from "./place_editor";
import type { Point } from "./polygon";
import { MIN_POINTS, crosses } from "./polygon";

/** So many pixels from the first corner close a shape. */
const NEAR = 16;

export interface Outline {
  /** The corners so far; null: no zone is drawn now. */
  corners: Point[] | null;
  /** The corners, with the pointer as the next one. */
  open: Point[] | null;
  /** The edge to the pointer would cross another. */
  refused: boolean;
  begin: () => void;
  stop: () => void;
  close: () => void;
  dropLast: () => void;
  press: (event: TargetedPointerEvent<SVGSVGElement>) => void;
  /** The pointer is there now; null: it left the picture. */
  point: (p: Point | null) => void;
}

interface Drawing {
  surface: Surface;
  disabled: boolean;
  /** Tells the user what is wrong; empty: nothing. */
  say: (words: string) => void;
  /** Takes a closed outline; false: it is refused, and drawn on. */
  onClose: (corners: Point[]) => boolean;
}

export function useOutline({ surface, disabled, say, onClose }: Drawing): Outline {
  const [corners, setCorners] = useState<Point[] | null>(null);
  const [pointer, setPointer] = useState<Point | null>(null);
  const start = corners?.[0];
  const nearStart = (p: Point): boolean => start !== undefined && (corners?.length ?? 0) >= MIN_POINTS && surface.apart(p, start) < NEAR;

  const end = (): void => {
    setCorners(null);
    setPointer(null);
  };
  const stop = (): void => {
    end();
    say("");
  };
  const close = (): void => {
    if (corners !== null && onClose(corners)) end();
  };
  const dropLast = (): void => {
    if (corners !== null) setCorners(corners.slice(0, -1));
  };
  const press = (event: TargetedPointerEvent<SVGSVGElement>): void => {
    if (corners === null || disabled || event.button !== 0) return;
    event.preventDefault();
    const p = surface.where(event);
    if (nearStart(p)) {
      close();
      return;
    }
    const last = corners.at(-1);
    if (last !== undefined && last[0] === p[0] && last[1] === p[1]) return;
    if (crosses([...corners, p], false)) {
      say("That edge would cross another: choose another point.");
      return;
    }
    say("");
    setCorners([...corners, p]);
  };
  useKeysWhile(corners !== null, (event) => {
    if (corners === null) return;
    if (event.key === "Escape") stop();
    else if (event.key === "Enter" && corners.length >= MIN_POINTS && !(event.target instanceof HTMLButtonElement)) close();
    else if (event.key === "Backspace" && !(event.target instanceof HTMLInputElement)) dropLast();
  });

  const closing = pointer !== null && nearStart(pointer);
  const open = corners !== null && pointer !== null && corners.length > 0 ? [...corners, closing ? (corners[0] as Point) : pointer] : corners;
  const refused = open !== null && open.length > 1 && !closing && crosses(open, false);
  const begin = (): void => {
    setCorners([]);
    say("");
  };
  return { corners, open, refused, begin, stop, close, dropLast, press, point: setPointer };
}

/** The outline so far, the edge to the pointer, and the corners. */
export function DrawnOutline({ outline: { corners, open, refused }, surface }: { outline: Outline; surface: Surface }) {
  return (
    <>
      {open !== null && open.length > 0 && <polyline class={refused ? "open refused" : "open"} points={drawnPoints(open, surface)} />}
      {corners?.map((p, n) => (
        <circle key={n} class={n === 0 ? "corner start" : "corner"} cx={p[0] * WIDE} cy={p[1] * surface.high} r={(n === 0 && corners.length > 2 ? 12 : 7) * surface.unit} />
      ))}
    </>
  );
}
