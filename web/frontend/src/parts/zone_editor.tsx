/** Drawing zones on a camera's picture: by mouse and touch, or by keyboard and numbers. Crossing edges are refused. */

import type { TargetedPointerEvent } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import type { Problem } from "../api";
import { Icon } from "./icon";
import type { Point } from "./polygon";
import { crosses, placed, wrong } from "./polygon";
import { Choices } from "./schema_form";

export interface Zone {
  name: string;
  polygon: Point[];
  classes: string[];
}

interface Props {
  /** Address of a picture of the camera; null: none is to be had. */
  picture: string | null;
  /** Width over height of the picture. */
  ratio: number;
  zones: Zone[];
  /** The classes of the camera. */
  classes: string[];
  problems: Problem[];
  disabled?: boolean;
  /** The kind of places: zones for rules and counts, or masks, which are of no class. */
  noun?: "zone" | "mask";
  onChange: (zones: Zone[]) => void;
}

const WIDE = 1000;
const STEP = 0.005;
const BIG_STEP = 0.05;
const RECTANGLE: Point[] = [[0.3, 0.4], [0.7, 0.4], [0.7, 0.8], [0.3, 0.8]];
const NEAR = 16;

function percent(value: number): string {
  return `${(100 * value).toFixed(1)} %`;
}

function freeName(zones: Zone[], noun: string): string {
  let n = 1;
  while (zones.some((z) => z.name === `${noun}-${n}`)) n += 1;
  return `${noun}-${n}`;
}

export function ZoneEditor({ picture, ratio, zones, classes, problems, disabled = false, noun = "zone", onChange }: Props) {
  const [chosen, setChosen] = useState(zones.length > 0 ? 0 : -1);
  const [drawing, setDrawing] = useState<Point[] | null>(null);
  const [pointer, setPointer] = useState<Point | null>(null);
  const [dragged, setDragged] = useState<number | null>(null);
  const [said, setSaid] = useState("");
  const [broken, setBroken] = useState(false);
  const svg = useRef<SVGSVGElement>(null);
  // Points to be grasped have a size in pixels of the screen, however small the picture is shown.
  const [unit, setUnit] = useState(1);
  const high = WIDE / ratio;
  const at = chosen < zones.length ? chosen : zones.length - 1;
  const zone = at >= 0 ? zones[at] : undefined;

  useEffect(() => setBroken(false), [picture]);

  useEffect(() => {
    if (svg.current === null) return undefined;
    const observer = new ResizeObserver(([entry]) => {
      if (entry !== undefined && entry.contentRect.width > 0) setUnit(WIDE / entry.contentRect.width);
    });
    observer.observe(svg.current);
    return () => observer.disconnect();
  }, []);

  const change = (n: number, part: Partial<Zone>): void => onChange(zones.map((z, k) => (k === n ? { ...z, ...part } : z)));

  /** Put a polygon in, unless it is one that the server would refuse; says why. */
  const reshape = (polygon: Point[]): boolean => {
    const why = wrong(polygon);
    setSaid(why ?? "");
    if (why === null) change(at, { polygon });
    return why === null;
  };

  const add = (polygon: Point[]): void => {
    const why = wrong(polygon);
    setSaid(why ?? "");
    if (why !== null) return;
    onChange([...zones, { name: freeName(zones, noun), polygon, classes: [] }]);
    setChosen(zones.length);
    setDrawing(null);
    setPointer(null);
  };

  const where = (event: PointerEvent | MouseEvent): Point => {
    const box = svg.current?.getBoundingClientRect();
    if (box === undefined || box.width === 0) return [0, 0];
    return placed((event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
  };
  const nearStart = (p: Point): boolean => {
    const start = drawing?.[0];
    const box = svg.current?.getBoundingClientRect();
    if (start === undefined || box === undefined || (drawing?.length ?? 0) < 3) return false;
    return Math.hypot((p[0] - start[0]) * box.width, (p[1] - start[1]) * box.height) < NEAR;
  };

  const press = (event: TargetedPointerEvent<SVGSVGElement>): void => {
    if (drawing === null || disabled || event.button !== 0) return;
    event.preventDefault();
    const p = where(event);
    if (nearStart(p)) {
      add(drawing);
      return;
    }
    const last = drawing.at(-1);
    if (last !== undefined && last[0] === p[0] && last[1] === p[1]) return;
    if (crosses([...drawing, p], false)) {
      setSaid("That edge would cross another: choose another point.");
      return;
    }
    setSaid("");
    setDrawing([...drawing, p]);
  };

  const move = (event: TargetedPointerEvent<SVGSVGElement>): void => {
    const p = where(event);
    if (drawing !== null) setPointer(p);
    else if (dragged !== null && zone !== undefined) reshape(zone.polygon.map((q, n) => (n === dragged ? p : q)));
  };

  const nudge = (event: KeyboardEvent, n: number): void => {
    if (zone === undefined || disabled) return;
    const step = event.shiftKey ? BIG_STEP : STEP;
    const by = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] }[event.key];
    if (by !== undefined) {
      event.preventDefault();
      reshape(zone.polygon.map((p, k) => (k === n ? placed(p[0] + (by[0] ?? 0), p[1] + (by[1] ?? 0)) : p)));
    } else if (event.key === "Delete" || event.key === "Backspace") {
      event.preventDefault();
      remove(n);
    }
  };

  const remove = (n: number): void => {
    if (zone !== undefined) reshape(zone.polygon.filter((_, k) => k !== n));
  };
  const insert = (n: number): void => {
    if (zone === undefined) return;
    const [a, b] = [zone.polygon[n] as Point, zone.polygon[(n + 1) % zone.polygon.length] as Point];
    const polygon = [...zone.polygon];
    polygon.splice(n + 1, 0, placed((a[0] + b[0]) / 2, (a[1] + b[1]) / 2));
    // A point in the middle of an edge changes no shape; it is there to be moved.
    change(at, { polygon });
    setSaid(`Point ${n + 2} added: move it.`);
  };

  useEffect(() => {
    if (drawing === null) return undefined;
    const key = (event: KeyboardEvent): void => {
      if (event.key === "Escape") {
        setDrawing(null);
        setPointer(null);
        setSaid("");
      } else if (event.key === "Enter" && drawing.length >= 3 && !(event.target instanceof HTMLButtonElement)) add(drawing);
      else if (event.key === "Backspace" && !(event.target instanceof HTMLInputElement)) setDrawing(drawing.slice(0, -1));
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  });

  const text = (points: Point[]): string => points.map(([x, y]) => `${x * WIDE},${y * high}`).join(" ");
  const mine = (path: string): Problem[] => problems.filter((p) => p.path === path || p.path.startsWith(`${path}.`) || p.path.startsWith(`${path}[`));
  const open = drawing !== null && pointer !== null && drawing.length > 0 ? [...drawing, nearStart(pointer) ? (drawing[0] as Point) : pointer] : drawing;
  const refused = open !== null && open.length > 1 && !(pointer !== null && nearStart(pointer)) && crosses(open, false);

  return (
    <div class="zone-editor">
      <div>
        <div class="zone-tools">
          {drawing === null ? (
            <>
              <button type="button" class="primary" disabled={disabled} onClick={() => { setDrawing([]); setSaid(""); }}>
                Draw a {noun}
              </button>
              <button type="button" disabled={disabled} onClick={() => add(RECTANGLE)}>
                Add a rectangle
              </button>
            </>
          ) : (
            <>
              <button type="button" class="primary" disabled={drawing.length < 3} onClick={() => add(drawing)}>
                Close the {noun}
              </button>
              <button type="button" disabled={drawing.length === 0} onClick={() => setDrawing(drawing.slice(0, -1))}>
                Undo the last point
              </button>
              <button type="button" onClick={() => { setDrawing(null); setPointer(null); setSaid(""); }}>
                Cancel
              </button>
            </>
          )}
        </div>
        <div class={drawing === null ? "zone-picture" : "zone-picture drawing"}>
          {picture !== null && !broken ? (
            <img src={picture} alt="" onError={() => setBroken(true)} draggable={false} width={WIDE} height={Math.round(high)} />
          ) : (
            <div class="zone-blank" style={{ aspectRatio: String(ratio) }}>
              <p>No picture of this camera now. {noun === "zone" ? "Zones" : "Masks"} can be set all the same.</p>
            </div>
          )}
          <svg
            ref={svg}
            viewBox={`0 0 ${WIDE} ${high}`}
            role="group"
            aria-label={`${noun === "zone" ? "Zones" : "Masks"} on the picture`}
            onPointerDown={press}
            onPointerMove={move}
            onPointerUp={() => setDragged(null)}
            onPointerCancel={() => setDragged(null)}
            onPointerLeave={() => setPointer(null)}
          >
            {zones.map((z, n) => (
              <g key={n} class={n === at && drawing === null ? "zone chosen" : "zone"}>
                <polygon points={text(z.polygon)} onPointerDown={() => drawing === null && setChosen(n)}>
                  <title>{z.name}</title>
                </polygon>
                <text
                  x={Math.min(...z.polygon.map((p) => p[0])) * WIDE + 8 * unit}
                  y={Math.min(...z.polygon.map((p) => p[1])) * high + 20 * unit}
                  font-size={15 * unit}
                >
                  {z.name}
                </text>
              </g>
            ))}
            {drawing === null &&
              !disabled &&
              zone?.polygon.map((p, n) => {
                const q = zone.polygon[(n + 1) % zone.polygon.length] as Point;
                return (
                  <circle
                    key={`m${n}`}
                    class="middle"
                    cx={((p[0] + q[0]) / 2) * WIDE}
                    cy={((p[1] + q[1]) / 2) * high}
                    r={7 * unit}
                    onPointerDown={(event) => {
                      event.stopPropagation();
                      insert(n);
                      svg.current?.setPointerCapture(event.pointerId);
                      setDragged(n + 1);
                    }}
                  >
                    <title>Add a point here</title>
                  </circle>
                );
              })}
            {drawing === null &&
              !disabled &&
              zone?.polygon.map((p, n) => (
                <circle
                  key={`p${n}`}
                  class="corner"
                  cx={p[0] * WIDE}
                  cy={p[1] * high}
                  r={10 * unit}
                  tabindex={0}
                  role="button"
                  aria-label={`Point ${n + 1} of ${zone.name}: ${percent(p[0])} from the left, ${percent(p[1])} from the top. Arrow keys move it, Delete removes it.`}
                  onKeyDown={(event) => nudge(event, n)}
                  onPointerDown={(event) => {
                    event.stopPropagation();
                    svg.current?.setPointerCapture(event.pointerId);
                    setDragged(n);
                  }}
                />
              ))}
            {open !== null && open.length > 0 && <polyline class={refused ? "open refused" : "open"} points={text(open)} />}
            {drawing?.map((p, n) => <circle key={n} class={n === 0 ? "corner start" : "corner"} cx={p[0] * WIDE} cy={p[1] * high} r={(n === 0 && drawing.length > 2 ? 12 : 7) * unit} />)}
          </svg>
        </div>
        <p class={said ? "problem zone-said" : "quiet zone-said"} role="status">
          {said ||
            (drawing !== null
              ? "Click the corners one after another; click the first again, or press Enter, to close. Escape cancels."
              : zone !== undefined
                ? "Drag a corner, or choose it and use the arrow keys (with Shift ten times as far). The small points between corners add one."
                : noun === "zone"
                  ? "An object is in a zone when the middle of its lower edge is."
                  : "A mask covers every pixel that it touches.")}
        </p>
      </div>

      <div class="zone-list">
        {zones.length === 0 && <p class="quiet">{noun === "zone" ? "No zone yet: rules see the whole picture." : "No mask yet: everything in the picture is seen."}</p>}
        {zones.map((z, n) => (
          <section key={n} class={n === at ? "zone-card chosen" : "zone-card"} aria-label={`${noun === "zone" ? "Zone" : "Mask"} ${z.name}`}>
            <div class="zone-head">
              <label>
                Name{" "}
                <input
                  type="text"
                  value={z.name}
                  disabled={disabled}
                  maxLength={63}
                  autocapitalize="none"
                  spellcheck={false}
                  aria-invalid={mine(`${noun}s[${n}].name`).length > 0}
                  onFocus={() => setChosen(n)}
                  onInput={(e) => change(n, { name: e.currentTarget.value })}
                />
              </label>
              {n !== at && (
                <button type="button" aria-label={`Change the shape of ${z.name}`} onClick={() => setChosen(n)}>
                  Shape
                </button>
              )}
              <button
                type="button"
                class="bare"
                disabled={disabled}
                aria-label={`Remove ${noun} ${z.name}`}
                onClick={() => {
                  onChange(zones.filter((_, k) => k !== n));
                  setChosen(Math.min(at, zones.length - 2));
                }}
              >
                <Icon name="close" />
              </button>
            </div>
            {mine(`${noun}s[${n}]`).map((p) => (
              <p key={p.path + p.allowed} class="problem" role="alert">
                {p.path.replace(`${noun}s[${n}].`, "")}: allowed: {p.allowed}
              </p>
            ))}
            {n === at && (
              <>
                {noun === "zone" && <Choices
                  label="Only objects of"
                  path={`zones[${n}].classes`}
                  problems={[]}
                  hint="None chosen: all."
                  options={classes.map((c) => ({ value: c, label: c }))}
                  value={z.classes}
                  disabled={disabled}
                  onChange={(value) => change(n, { classes: value })}
                />}
                <Points zone={z} disabled={disabled} onReshape={reshape} onInsert={insert} onRemove={remove} />
              </>
            )}
          </section>
        ))}
      </div>
    </div>
  );
}

interface PointsProps {
  zone: Zone;
  disabled: boolean;
  onReshape: (polygon: Point[]) => boolean;
  onInsert: (n: number) => void;
  onRemove: (n: number) => void;
}

/** The corners as numbers: what the mouse does, without one. */
function Points({ zone, disabled, onReshape, onInsert, onRemove }: PointsProps) {
  return (
    <details class="zone-points">
      <summary>
        Corners as numbers <span class="quiet">({zone.polygon.length})</span>
      </summary>
      <ol>
        {zone.polygon.map((p, n) => (
          <li key={n}>
            <span class="quiet">{n + 1}</span>
            {(["left", "top"] as const).map((side, axis) => (
              <Coordinate
                key={side}
                label={`Point ${n + 1}, percent from the ${side}`}
                value={p[axis] ?? 0}
                disabled={disabled}
                onChange={(value) => onReshape(zone.polygon.map((q, k) => (k === n ? (axis === 0 ? placed(value, q[1]) : placed(q[0], value)) : q)))}
              />
            ))}
            <button type="button" class="bare" disabled={disabled} aria-label={`Add a point after point ${n + 1}`} onClick={() => onInsert(n)}>
              +
            </button>
            <button type="button" class="bare" disabled={disabled || zone.polygon.length <= 3} aria-label={`Remove point ${n + 1}`} onClick={() => onRemove(n)}>
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
