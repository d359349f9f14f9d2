/** Drawing counting lines on a camera's picture: two clicks, or a level line; ends are dragged or moved by arrow keys. */

import type { TargetedPointerEvent } from "preact";
import { useState } from "preact/hooks";

import type { EditorProps, Place, Surface } from "./place_editor";
import { Corner, PlaceCards, PlacePicture, WIDE, changed, freeName, stepped, useKeysWhile, useSurface } from "./place_editor";
import type { Point } from "./polygon";

export interface Line extends Place {
  start: Point;
  end: Point;
}

const SHORTEST = 0.02;
const ENDS = ["start", "end"] as const;
type End = (typeof ENDS)[number];

function tooShort(a: Point, b: Point): boolean {
  return Math.hypot(a[0] - b[0], a[1] - b[1]) < SHORTEST;
}

export function LineEditor({ picture, ratio, places, classes, problems, disabled = false, onChange }: EditorProps<Line>) {
  const [chosen, setChosen] = useState(0);
  const [first, setFirst] = useState<Point | null>(null);
  const [drawing, setDrawing] = useState(false);
  const [pointer, setPointer] = useState<Point | null>(null);
  const [dragged, setDragged] = useState<End | null>(null);
  const [said, setSaid] = useState("");
  const surface = useSurface(ratio);
  const at = Math.min(chosen, places.length - 1);
  const line = places[at];

  const stop = (): void => {
    setDrawing(false);
    setFirst(null);
    setPointer(null);
    setSaid("");
  };
  const moveEnd = (end: End, p: Point): void => {
    if (line === undefined) return;
    const short = tooShort(p, end === "start" ? line.end : line.start);
    setSaid(short ? "A line is longer than that." : "");
    if (!short) onChange(changed(places, at, { [end]: p }));
  };
  const add = (start: Point, end: Point): void => {
    onChange([...places, { name: freeName(places, "line"), start, end, classes: [] }]);
    setChosen(places.length);
    stop();
  };
  const press = (event: TargetedPointerEvent<SVGSVGElement>): void => {
    if (!drawing || disabled || event.button !== 0) return;
    event.preventDefault();
    const p = surface.where(event);
    if (first === null) setFirst(p);
    else if (tooShort(first, p)) setSaid("A line is longer than that: click its other end.");
    else add(first, p);
  };
  const nudge = (event: KeyboardEvent, end: End): void => {
    const to = line === undefined || disabled ? null : stepped(event, line[end]);
    if (to !== null) moveEnd(end, to);
  };
  useKeysWhile(drawing, (event) => {
    if (event.key === "Escape") stop();
  });

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
        <PlacePicture
          picture={picture}
          ratio={ratio}
          noun="line"
          surface={surface}
          drawing={drawing}
          onPointerDown={press}
          onPointerMove={(event) => {
            if (drawing) setPointer(surface.where(event));
            else if (dragged !== null) moveEnd(dragged, surface.where(event));
          }}
          onPointerUp={() => setDragged(null)}
          onPointerCancel={() => setDragged(null)}
        >
          {places.map((x, n) => (
            <DrawnLine key={n} line={x} surface={surface} chosen={n === at && !drawing} onChoose={() => !drawing && setChosen(n)} />
          ))}
          {!drawing &&
            !disabled &&
            line !== undefined &&
            ENDS.map((end) => (
              <Corner
                key={end}
                at={line[end]}
                surface={surface}
                label={`The ${end} of ${line.name}. Arrow keys move it.`}
                onKeyDown={(event) => nudge(event, end)}
                onGrasp={() => setDragged(end)}
              />
            ))}
          {drawing && first !== null && pointer !== null && (
            <polyline class="open" points={`${first[0] * WIDE},${first[1] * surface.high} ${pointer[0] * WIDE},${pointer[1] * surface.high}`} />
          )}
        </PlacePicture>
        <p class={said ? "problem zone-said" : "quiet zone-said"} role="status">
          {said || hint(drawing, first !== null)}
        </p>
      </div>
      <PlaceCards
        noun="line"
        places={places}
        at={at}
        classes={classes}
        problems={problems}
        disabled={disabled}
        onChoose={setChosen}
        onChange={onChange}
        buttons={(x, n) => (
          <button type="button" disabled={disabled} aria-label={`Turn the direction of ${x.name}`} onClick={() => onChange(changed(places, n, { start: x.end, end: x.start }))}>
            Turn
          </button>
        )}
      >
        No line yet: nothing is counted at one.
      </PlaceCards>
    </div>
  );
}

function hint(drawing: boolean, begun: boolean): string {
  if (!drawing) return "An object crosses when the middle of its lower edge does. The arrow shows the forward direction.";
  return begun ? "Click where it ends." : "Click where the line begins. Escape cancels.";
}

interface DrawnProps {
  line: Line;
  surface: Surface;
  chosen: boolean;
  onChoose: () => void;
}

/** A line with an arrow from its middle to its forward side. */
function DrawnLine({ line, surface: { high, unit }, chosen, onChoose }: DrawnProps) {
  const [x0, y0] = [line.start[0] * WIDE, line.start[1] * high];
  const [x1, y1] = [line.end[0] * WIDE, line.end[1] * high];
  const [mx, my] = [(x0 + x1) / 2, (y0 + y1) / 2];
  const length = Math.hypot(x1 - x0, y1 - y0) || 1;
  const [ax, ay] = [mx - ((y1 - y0) / length) * 34 * unit, my + ((x1 - x0) / length) * 34 * unit];
  const turn = (180 / Math.PI) * Math.atan2(ay - my, ax - mx);
  // Inside the picture, also of a line that begins at its right edge.
  const right = x0 > 0.8 * WIDE;
  return (
    <g class={chosen ? "count-line chosen" : "count-line"} onPointerDown={onChoose}>
      <line x1={x0} y1={y0} x2={x1} y2={y1}>
        <title>{line.name}</title>
      </line>
      <line x1={mx} y1={my} x2={ax} y2={ay} />
      <path d={`M ${-9 * unit} ${-6 * unit} L 0 0 L ${-9 * unit} ${6 * unit}`} transform={`translate(${ax} ${ay}) rotate(${turn})`} />
      <text x={x0 + (right ? -8 : 8) * unit} text-anchor={right ? "end" : "start"} y={y0 - 10 * unit} font-size={15 * unit}>
        {line.name}
      </text>
    </g>
  );
}
