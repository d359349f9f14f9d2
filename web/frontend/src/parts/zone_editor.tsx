/** Drawing zones on a camera's picture: by mouse and touch, or by keyboard and numbers. Crossing edges are refused. */

import type { TargetedPointerEvent } from "preact";
import { useState } from "preact/hooks";

import { Icon } from "./icon";
import type { EditorProps, Place } from "./place_editor";
import { Corner, PlaceCards, PlacePicture, WIDE, changed, freeName, stepped, useKeysWhile, useSurface } from "./place_editor";
import type { Point } from "./polygon";
import { crosses, placed, wrong } from "./polygon";

export interface Zone extends Place {
  polygon: Point[];
}

interface Props extends EditorProps<Zone> {
  /** The kind of places: zones for rules and counts, or masks, which are of no class. */
  noun?: "zone" | "mask";
}

const RECTANGLE: Point[] = [[0.3, 0.4], [0.7, 0.4], [0.7, 0.8], [0.3, 0.8]];
/** So many pixels from the first corner close a shape. */
const NEAR = 16;
const HINTS = {
  zone: { idle: "An object is in a zone when the middle of its lower edge is.", none: "No zone yet: rules see the whole picture." },
  mask: { idle: "A mask covers every pixel that it touches.", none: "No mask yet: everything in the picture is seen." },
};

function percent(value: number): string {
  return `${(100 * value).toFixed(1)} %`;
}

export function ZoneEditor({ picture, ratio, places: zones, classes, problems, disabled = false, noun = "zone", onChange }: Props) {
  const [chosen, setChosen] = useState(0);
  const [drawing, setDrawing] = useState<Point[] | null>(null);
  const [pointer, setPointer] = useState<Point | null>(null);
  const [dragged, setDragged] = useState<number | null>(null);
  const [said, setSaid] = useState("");
  const surface = useSurface(ratio);
  const { high, unit } = surface;
  const at = Math.min(chosen, zones.length - 1);
  const zone = zones[at];

  const begin = (): void => {
    setDrawing([]);
    setSaid("");
  };
  const stop = (): void => {
    setDrawing(null);
    setPointer(null);
    setSaid("");
  };

  /** Put a polygon in, unless it is one that the server would refuse; says why. */
  const reshape = (polygon: Point[]): boolean => {
    const why = wrong(polygon);
    setSaid(why ?? "");
    if (why === null) onChange(changed(zones, at, { polygon }));
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

  const nearStart = (p: Point): boolean => {
    const start = drawing?.[0];
    return start !== undefined && (drawing?.length ?? 0) >= 3 && surface.apart(p, start) < NEAR;
  };

  const press = (event: TargetedPointerEvent<SVGSVGElement>): void => {
    if (drawing === null || disabled || event.button !== 0) return;
    event.preventDefault();
    const p = surface.where(event);
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
    const p = surface.where(event);
    if (drawing !== null) setPointer(p);
    else if (dragged !== null && zone !== undefined) reshape(zone.polygon.map((q, n) => (n === dragged ? p : q)));
  };

  const nudge = (event: KeyboardEvent, n: number): void => {
    const from = zone?.polygon[n];
    if (zone === undefined || from === undefined || disabled) return;
    const to = stepped(event, from);
    if (to !== null) reshape(zone.polygon.map((p, k) => (k === n ? to : p)));
    else if (event.key === "Delete" || event.key === "Backspace") {
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
    onChange(changed(zones, at, { polygon }));
    setSaid(`Point ${n + 2} added: move it.`);
  };

  useKeysWhile(drawing !== null, (event) => {
    if (drawing === null) return;
    if (event.key === "Escape") stop();
    else if (event.key === "Enter" && drawing.length >= 3 && !(event.target instanceof HTMLButtonElement)) add(drawing);
    else if (event.key === "Backspace" && !(event.target instanceof HTMLInputElement)) setDrawing(drawing.slice(0, -1));
  });

  const text = (points: Point[]): string => points.map(([x, y]) => `${x * WIDE},${y * high}`).join(" ");
  const open = drawing !== null && pointer !== null && drawing.length > 0 ? [...drawing, nearStart(pointer) ? (drawing[0] as Point) : pointer] : drawing;
  const refused = open !== null && open.length > 1 && !(pointer !== null && nearStart(pointer)) && crosses(open, false);

  return (
    <div class="zone-editor">
      <div>
        <div class="zone-tools">
          {drawing === null ? (
            <>
              <button type="button" class="primary" disabled={disabled} onClick={begin}>
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
              <button type="button" onClick={stop}>
                Cancel
              </button>
            </>
          )}
        </div>
        <PlacePicture
          picture={picture}
          ratio={ratio}
          noun={noun}
          surface={surface}
          drawing={drawing !== null}
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
                    surface.grasp(event);
                    insert(n);
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
              <Corner
                key={`p${n}`}
                at={p}
                surface={surface}
                label={`Point ${n + 1} of ${zone.name}: ${percent(p[0])} from the left, ${percent(p[1])} from the top. Arrow keys move it, Delete removes it.`}
                onKeyDown={(event) => nudge(event, n)}
                onGrasp={() => setDragged(n)}
              />
            ))}
          {open !== null && open.length > 0 && <polyline class={refused ? "open refused" : "open"} points={text(open)} />}
          {drawing?.map((p, n) => <circle key={n} class={n === 0 ? "corner start" : "corner"} cx={p[0] * WIDE} cy={p[1] * high} r={(n === 0 && drawing.length > 2 ? 12 : 7) * unit} />)}
        </PlacePicture>
        <p class={said ? "problem zone-said" : "quiet zone-said"} role="status">
          {said ||
            (drawing !== null
              ? "Click the corners one after another; click the first again, or press Enter, to close. Escape cancels."
              : zone !== undefined
                ? "Drag a corner, or choose it and use the arrow keys (with Shift ten times as far). The small points between corners add one."
                : HINTS[noun].idle)}
        </p>
      </div>
      <PlaceCards
        noun={noun}
        places={zones}
        at={at}
        classes={noun === "zone" ? classes : null}
        problems={problems}
        disabled={disabled}
        onChoose={setChosen}
        onChange={onChange}
        buttons={(z, n) =>
          n !== at && (
            <button type="button" aria-label={`Change the shape of ${z.name}`} onClick={() => setChosen(n)}>
              Shape
            </button>
          )
        }
        more={(z) => <Points zone={z} disabled={disabled} onReshape={reshape} onInsert={insert} onRemove={remove} />}
      >
        {HINTS[noun].none}
      </PlaceCards>
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
