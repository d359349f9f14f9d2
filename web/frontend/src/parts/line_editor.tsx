/** Drawing counting lines on a camera's picture: two clicks, or numbers; ends are dragged or moved by arrow keys. */

import { useEffect, useRef, useState } from "preact/hooks";

import type { Problem } from "../api";
import { Icon } from "./icon";
import type { Point } from "./polygon";
import { placed } from "./polygon";
import { Choices } from "./schema_form";

export interface Line {
  name: string;
  start: Point;
  end: Point;
  classes: string[];
}

interface Props {
  /** Address of a picture of the camera; null: none is to be had. */
  picture: string | null;
  /** Width over height of the picture. */
  ratio: number;
  lines: Line[];
  classes: string[];
  problems: Problem[];
  disabled?: boolean;
  onChange: (lines: Line[]) => void;
}

const WIDE = 1000;
const STEP = 0.005;
const BIG_STEP = 0.05;
const SHORTEST = 0.02;
const ENDS = ["start", "end"] as const;
type End = (typeof ENDS)[number];

function freeName(lines: Line[]): string {
  let n = 1;
  while (lines.some((x) => x.name === `line-${n}`)) n += 1;
  return `line-${n}`;
}

function tooShort(a: Point, b: Point): boolean {
  return Math.hypot(a[0] - b[0], a[1] - b[1]) < SHORTEST;
}

export function LineEditor({ picture, ratio, lines, classes, problems, disabled = false, onChange }: Props) {
  const [chosen, setChosen] = useState(0);
  const [first, setFirst] = useState<Point | null>(null);
  const [drawing, setDrawing] = useState(false);
  const [pointer, setPointer] = useState<Point | null>(null);
  const [dragged, setDragged] = useState<End | null>(null);
  const [said, setSaid] = useState("");
  const [broken, setBroken] = useState(false);
  const svg = useRef<SVGSVGElement>(null);
  const [unit, setUnit] = useState(1);
  const high = WIDE / ratio;
  const at = Math.min(chosen, lines.length - 1);
  const line = lines[at];

  useEffect(() => setBroken(false), [picture]);
  useEffect(() => {
    if (svg.current === null) return undefined;
    const observer = new ResizeObserver(([entry]) => {
      if (entry !== undefined && entry.contentRect.width > 0) setUnit(WIDE / entry.contentRect.width);
    });
    observer.observe(svg.current);
    return () => observer.disconnect();
  }, []);

  const stop = (): void => {
    setDrawing(false);
    setFirst(null);
    setPointer(null);
  };
  const change = (n: number, part: Partial<Line>): void => onChange(lines.map((x, k) => (k === n ? { ...x, ...part } : x)));
  const moveEnd = (end: End, p: Point): void => {
    if (line === undefined) return;
    const short = tooShort(p, end === "start" ? line.end : line.start);
    setSaid(short ? "A line is longer than that." : "");
    if (!short) change(at, { [end]: p });
  };
  const add = (start: Point, end: Point): void => {
    onChange([...lines, { name: freeName(lines), start, end, classes: [] }]);
    setChosen(lines.length);
    setSaid("");
    stop();
  };
  const where = (event: MouseEvent): Point => {
    const box = svg.current?.getBoundingClientRect();
    if (box === undefined || box.width === 0) return [0, 0];
    return placed((event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
  };
  const press = (event: PointerEvent): void => {
    if (!drawing || disabled || event.button !== 0) return;
    event.preventDefault();
    const p = where(event);
    if (first === null) setFirst(p);
    else if (tooShort(first, p)) setSaid("A line is longer than that: click its other end.");
    else add(first, p);
  };
  const nudge = (event: KeyboardEvent, end: End): void => {
    const step = event.shiftKey ? BIG_STEP : STEP;
    const by = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] }[event.key];
    if (by === undefined || line === undefined || disabled) return;
    event.preventDefault();
    moveEnd(end, placed(line[end][0] + (by[0] ?? 0), line[end][1] + (by[1] ?? 0)));
  };
  useEffect(() => {
    if (!drawing) return undefined;
    const key = (event: KeyboardEvent): void => {
      if (event.key === "Escape") stop();
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  });
  const mine = (path: string): Problem[] => problems.filter((p) => p.path === path || p.path.startsWith(`${path}.`));

  return (
    <div class="zone-editor">
      <div>
        <div class="zone-tools">
          {drawing ? (
            <button type="button" onClick={stop}>
              Cancel
            </button>
          ) : (
            <>
              <button type="button" class="primary" disabled={disabled} onClick={() => setDrawing(true)}>
                Draw a line
              </button>
              <button type="button" disabled={disabled} onClick={() => add([0.25, 0.6], [0.75, 0.6])}>
                Add a level line
              </button>
            </>
          )}
        </div>
        <div class={drawing ? "zone-picture drawing" : "zone-picture"}>
          {picture !== null && !broken ? (
            <img src={picture} alt="" onError={() => setBroken(true)} draggable={false} width={WIDE} height={Math.round(high)} />
          ) : (
            <div class="zone-blank" style={{ aspectRatio: String(ratio) }}>
              <p>No picture of this camera now. Lines can be set all the same.</p>
            </div>
          )}
          <svg
            ref={svg}
            viewBox={`0 0 ${WIDE} ${high}`}
            role="group"
            aria-label="Lines on the picture"
            onPointerDown={press}
            onPointerMove={(event) => {
              if (drawing) setPointer(where(event));
              else if (dragged !== null) moveEnd(dragged, where(event));
            }}
            onPointerUp={() => setDragged(null)}
            onPointerCancel={() => setDragged(null)}
          >
            {lines.map((x, n) => (
              <DrawnLine key={n} line={x} high={high} unit={unit} chosen={n === at && !drawing} onChoose={() => !drawing && setChosen(n)} />
            ))}
            {!drawing &&
              !disabled &&
              line !== undefined &&
              ENDS.map((end) => (
                <circle
                  key={end}
                  class="corner"
                  cx={line[end][0] * WIDE}
                  cy={line[end][1] * high}
                  r={10 * unit}
                  tabindex={0}
                  role="button"
                  aria-label={`The ${end} of ${line.name}. Arrow keys move it.`}
                  onKeyDown={(event) => nudge(event, end)}
                  onPointerDown={(event) => {
                    event.stopPropagation();
                    svg.current?.setPointerCapture(event.pointerId);
                    setDragged(end);
                  }}
                />
              ))}
            {drawing && first !== null && pointer !== null && (
              <polyline class="open" points={`${first[0] * WIDE},${first[1] * high} ${pointer[0] * WIDE},${pointer[1] * high}`} />
            )}
          </svg>
        </div>
        <p class={said ? "problem zone-said" : "quiet zone-said"} role="status">
          {said ||
            (drawing
              ? first === null
                ? "Click where the line begins. Escape cancels."
                : "Click where it ends."
              : "An object crosses when the middle of its lower edge does. The arrow shows the forward direction.")}
        </p>
      </div>
      <div class="zone-list">
        {lines.length === 0 && <p class="quiet">No line yet: nothing is counted at one.</p>}
        {lines.map((x, n) => (
          <section key={n} class={n === at ? "zone-card chosen" : "zone-card"} aria-label={`Line ${x.name}`}>
            <div class="zone-head">
              <label>
                Name{" "}
                <input
                  type="text"
                  value={x.name}
                  disabled={disabled}
                  maxLength={63}
                  autocapitalize="none"
                  spellcheck={false}
                  aria-invalid={mine(`lines[${n}].name`).length > 0}
                  onFocus={() => setChosen(n)}
                  onInput={(e) => change(n, { name: e.currentTarget.value })}
                />
              </label>
              <button type="button" disabled={disabled} aria-label={`Turn the direction of ${x.name}`} onClick={() => change(n, { start: x.end, end: x.start })}>
                Turn
              </button>
              <button
                type="button"
                class="bare"
                disabled={disabled}
                aria-label={`Remove line ${x.name}`}
                onClick={() => {
                  onChange(lines.filter((_, k) => k !== n));
                  setChosen(0);
                }}
              >
                <Icon name="close" />
              </button>
            </div>
            {mine(`lines[${n}]`).map((p) => (
              <p key={p.path + p.allowed} class="problem" role="alert">
                {p.path.replace(`lines[${n}].`, "")}: allowed: {p.allowed}
              </p>
            ))}
            {n === at && (
              <Choices
                label="Only objects of"
                path={`lines[${n}].classes`}
                problems={[]}
                hint="None chosen: all."
                options={classes.map((c) => ({ value: c, label: c }))}
                value={x.classes}
                disabled={disabled}
                onChange={(value) => change(n, { classes: value })}
              />
            )}
          </section>
        ))}
      </div>
    </div>
  );
}

interface DrawnProps {
  line: Line;
  high: number;
  unit: number;
  chosen: boolean;
  onChoose: () => void;
}

/** A line with an arrow from its middle to its forward side. */
function DrawnLine({ line, high, unit, chosen, onChoose }: DrawnProps) {
  const [x0, y0] = [line.start[0] * WIDE, line.start[1] * high];
  const [x1, y1] = [line.end[0] * WIDE, line.end[1] * high];
  const [mx, my] = [(x0 + x1) / 2, (y0 + y1) / 2];
  const length = Math.hypot(x1 - x0, y1 - y0) || 1;
  const [ax, ay] = [mx - ((y1 - y0) / length) * 34 * unit, my + ((x1 - x0) / length) * 34 * unit];
  const turn = (180 / Math.PI) * Math.atan2(ay - my, ax - mx);
  return (
    <g class={chosen ? "count-line chosen" : "count-line"} onPointerDown={onChoose}>
      <line x1={x0} y1={y0} x2={x1} y2={y1}>
        <title>{line.name}</title>
      </line>
      <line x1={mx} y1={my} x2={ax} y2={ay} />
      <path d={`M ${-9 * unit} ${-6 * unit} L 0 0 L ${-9 * unit} ${6 * unit}`} transform={`translate(${ax} ${ay}) rotate(${turn})`} />
      <text x={x0 + 8 * unit} y={y0 - 10 * unit} font-size={15 * unit}>
        {line.name}
      </text>
    </g>
  );
}
