/** The corners of a zone: dragged with the pointer, moved by keys, or typed as numbers. */

import { useState } from "preact/hooks";

import { Icon } from "./icon";
import type { Surface } from "./place_editor";
import { Corner, WIDE, stepped } from "./place_editor";
import type { Point } from "./polygon";
import { MIN_POINTS, placed, wrong } from "./polygon";

export interface Corners {
  /** Of the chosen zone; undefined: there is none. */
  polygon: Point[] | undefined;
  /** Put a polygon in, unless it is one that the server would refuse: then it is said why. */
  reshape: (polygon: Point[]) => boolean;
  insert: (n: number) => void;
  remove: (n: number) => void;
  nudge: (event: KeyboardEvent, n: number) => void;
  /** The corner with this number goes with the pointer; null: none does. */
  grasp: (n: number | null) => void;
  drag: (to: Point) => void;
}

interface Shape {
  polygon: Point[] | undefined;
  disabled: boolean;
  /** Tells the user what is wrong; empty: nothing. */
  say: (words: string) => void;
  onChange: (polygon: Point[]) => void;
}

export function useCorners({ polygon, disabled, say, onChange }: Shape): Corners {
  const [dragged, setDragged] = useState<number | null>(null);
  const reshape = (to: Point[]): boolean => {
    const why = wrong(to);
    say(why ?? "");
    if (why === null) onChange(to);
    return why === null;
  };
  const put = (n: number, to: Point): void => {
    if (polygon !== undefined) reshape(polygon.map((p, k) => (k === n ? to : p)));
  };
  const remove = (n: number): void => {
    if (polygon !== undefined) reshape(polygon.filter((_, k) => k !== n));
  };
  const insert = (n: number): void => {
    if (polygon === undefined) return;
    const [a, b] = [polygon[n] as Point, polygon[(n + 1) % polygon.length] as Point];
    const more = [...polygon];
    more.splice(n + 1, 0, placed((a[0] + b[0]) / 2, (a[1] + b[1]) / 2));
    // A point in the middle of an edge changes no shape; it is there to be moved.
    onChange(more);
    say(`Point ${n + 2} added: move it.`);
  };
  const nudge = (event: KeyboardEvent, n: number): void => {
    const from = polygon?.[n];
    if (from === undefined || disabled) return;
    const to = stepped(event, from);
    if (to !== null) put(n, to);
    else if (event.key === "Delete" || event.key === "Backspace") {
      event.preventDefault();
      remove(n);
    }
  };
  const drag = (to: Point): void => {
    if (dragged !== null) put(dragged, to);
  };
  return { polygon, reshape, insert, remove, nudge, grasp: setDragged, drag };
}

function percent(value: number): string {
  return `${(100 * value).toFixed(1)} %`;
}

interface DraggedProps {
  /** Of the zone. */
  name: string;
  corners: Corners;
  surface: Surface;
}

/** The corners on the picture, and between them points that add one. */
export function DraggedCorners({ name, corners: { polygon = [], insert, nudge, grasp }, surface }: DraggedProps) {
  return (
    <>
      {polygon.map((p, n) => {
        const q = polygon[(n + 1) % polygon.length] as Point;
        return (
          <circle
            key={`m${n}`}
            class="middle"
            cx={((p[0] + q[0]) / 2) * WIDE}
            cy={((p[1] + q[1]) / 2) * surface.high}
            r={7 * surface.unit}
            onPointerDown={(event) => {
              surface.grasp(event);
              insert(n);
              grasp(n + 1);
            }}
          >
            <title>Add a point here</title>
          </circle>
        );
      })}
      {polygon.map((p, n) => (
        <Corner
          key={`p${n}`}
          at={p}
          surface={surface}
          label={`Point ${n + 1} of ${name}: ${percent(p[0])} from the left, ${percent(p[1])} from the top. Arrow keys move it, Delete removes it.`}
          onKeyDown={(event) => nudge(event, n)}
          onGrasp={() => grasp(n)}
        />
      ))}
    </>
  );
}

/** The corners as numbers: all that the mouse does, without one. */
export function TypedCorners({ corners: { polygon = [], reshape, insert, remove }, disabled }: { corners: Corners; disabled: boolean }) {
  return (
    <details class="zone-points">
      <summary>
        Corners as numbers <span class="quiet">({polygon.length})</span>
      </summary>
      <ol>
        {polygon.map((p, n) => (
          <li key={n}>
            <span class="quiet">{n + 1}</span>
            {(["left", "top"] as const).map((side, axis) => (
              <Coordinate
                key={side}
                label={`Point ${n + 1}, percent from the ${side}`}
                value={p[axis] ?? 0}
                disabled={disabled}
                onChange={(value) => reshape(polygon.map((q, k) => (k === n ? (axis === 0 ? placed(value, q[1]) : placed(q[0], value)) : q)))}
              />
            ))}
            <button type="button" class="bare" disabled={disabled} aria-label={`Add a point after point ${n + 1}`} onClick={() => insert(n)}>
              +
            </button>
            <button type="button" class="bare" disabled={disabled || polygon.length <= MIN_POINTS} aria-label={`Remove point ${n + 1}`} onClick={() => remove(n)}>
              <Icon name="close" />
            </button>
          </li>
        ))}
      </ol>
      <p class="hint">Percent of the picture, from the left and from the top.</p>
    </details>
  );
}

function Coordinate({ label, value, disabled, onChange }: { label: string; value: number; disabled: boolean; onChange: (value: number) => boolean }) {
  const [typed, setTyped] = useState<string | null>(null);
  const [refused, setRefused] = useState(false);
  return (
    <input
      type="text"
      inputMode="decimal"
      aria-label={label}
      aria-invalid={refused}
      disabled={disabled}
      value={typed ?? (100 * value).toFixed(1)}
      onInput={(e) => {
        setTyped(e.currentTarget.value);
        const text = e.currentTarget.value.trim().replace(",", ".");
        const number = parseFloat(text) / 100;
        setRefused(text === "" || !(number >= 0 && number <= 1) || !onChange(number));
      }}
      onBlur={() => {
        setTyped(null);
        setRefused(false);
      }}
    />
  );
}
