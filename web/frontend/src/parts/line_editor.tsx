/** Drawing counting lines on a camera's picture: two clicks, or a level line; ends are dragged or moved by arrow keys. */

import type { TargetedPointerEvent } from "preact";
import { useState } from "preact/hooks";

import type { EditorProps, Place, Surface } from "./place_editor";
import { Corner, PlaceCards, PlacePicture, PlaceStatus, WIDE, changed, drawnPoints, freeName, stepped, useKeysWhile, useSurface } from "./place_editor";
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

interface Drawing {
  drawing: boolean;
  /** The end that is set; null: none is yet. */
  first: Point | null;
  pointer: Point | null;
  begin: () => void;
  stop: () => void;
  press: (event: TargetedPointerEvent<SVGSVGElement>) => void;
  point: (p: Point) => void;
}

interface DrawingProps {
  surface: Surface;
  disabled: boolean;
  /** Tells the user what is wrong; empty: nothing. */
  say: (words: string) => void;
  onDrawn: (start: Point, end: Point) => void;
}

/** Drawing a new line by its two ends. */
function useDrawing({ surface, disabled, say, onDrawn }: DrawingProps): Drawing {
  const [drawing, setDrawing] = useState(false);
  const [first, setFirst] = useState<Point | null>(null);
  const [pointer, setPointer] = useState<Point | null>(null);
  const stop = (): void => {
    setDrawing(false);
    setFirst(null);
    setPointer(null);
    say("");
  };
  const press = (event: TargetedPointerEvent<SVGSVGElement>): void => {
    if (!drawing || disabled || event.button !== 0) return;
    event.preventDefault();
    const p = surface.where(event);
    if (first === null) setFirst(p);
    else if (tooShort(first, p)) say("A line is longer than that: click its other end.");
    else {
      onDrawn(first, p);
      stop();
    }
  };
  useKeysWhile(drawing, (event) => {
    if (event.key === "Escape") stop();
  });
  return { drawing, first, pointer, begin: () => setDrawing(true), stop, press, point: setPointer };
}

interface Ends {
  nudge: (event: KeyboardEvent, end: End) => void;
  /** The end goes with the pointer; null: none does. */
  grasp: (end: End | null) => void;
  drag: (to: Point) => void;
}

/** Moving the ends of the chosen line. */
function useEnds(line: Line | undefined, disabled: boolean, say: (words: string) => void, onChange: (part: Partial<Line>) => void): Ends {
  const [dragged, setDragged] = useState<End | null>(null);
  const move = (end: End, p: Point): void => {
    if (line === undefined) return;
    const short = tooShort(p, end === "start" ? line.end : line.start);
    say(short ? "A line is longer than that." : "");
    if (!short) onChange({ [end]: p });
  };
  return {
    nudge: (event, end) => {
      const to = line === undefined || disabled ? null : stepped(event, line[end]);
      if (to !== null) move(end, to);
    },
    grasp: setDragged,
    drag: (to) => {
      if (dragged !== null) move(dragged, to);
    },
  };
}

export function LineEditor({ picture, ratio, places, classes, problems, disabled = false, onChange }: EditorProps<Line>) {
  const [chosen, setChosen] = useState(0);
  const [said, setSaid] = useState("");
  const surface = useSurface(ratio);
  const at = Math.min(chosen, places.length - 1);
  const line = places[at];
  const add = (start: Point, end: Point): void => {
    onChange([...places, { name: freeName(places, "line"), start, end, classes: [] }]);
    setChosen(places.length);
    setSaid("");
  };
  const drawn = useDrawing({ surface, disabled, say: setSaid, onDrawn: add });
  const ends = useEnds(line, disabled, setSaid, (part) => onChange(changed(places, at, part)));
  const { drawing } = drawn;

  return (
    <div class="zone-editor">
      <div>
        <LineTools drawn={drawn} disabled={disabled} onAdd={add} />
        <PlacePicture
          picture={picture}
          ratio={ratio}
          noun="line"
          surface={surface}
          drawing={drawing}
          onPointerDown={drawn.press}
          onPointerMove={(event) => (drawing ? drawn.point : ends.drag)(surface.where(event))}
          onPointerUp={() => ends.grasp(null)}
          onPointerCancel={() => ends.grasp(null)}
        >
          {places.map((x, n) => (
            <DrawnLine key={n} line={x} surface={surface} chosen={n === at && !drawing} onChoose={() => !drawing && setChosen(n)} />
          ))}
          {!drawing && !disabled && line !== undefined && <DraggedEnds line={line} ends={ends} surface={surface} />}
          {drawing && drawn.first !== null && drawn.pointer !== null && <polyline class="open" points={drawnPoints([drawn.first, drawn.pointer], surface)} />}
        </PlacePicture>
        <PlaceStatus said={said} hint={hint(drawing, drawn.first !== null)} />
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

function LineTools({ drawn, disabled, onAdd }: { drawn: Drawing; disabled: boolean; onAdd: (start: Point, end: Point) => void }) {
  return (
    <div class="zone-tools">
      {drawn.drawing ? (
        <button type="button" onClick={drawn.stop}>
          Cancel
        </button>
      ) : (
        <>
          <button type="button" class="primary" disabled={disabled} onClick={drawn.begin}>
            Draw a line
          </button>
          <button type="button" disabled={disabled} onClick={() => onAdd([0.25, 0.6], [0.75, 0.6])}>
            Add a level line
          </button>
        </>
      )}
    </div>
  );
}

function DraggedEnds({ line, ends, surface }: { line: Line; ends: Ends; surface: Surface }) {
  return (
    <>
      {ENDS.map((end) => (
        <Corner
          key={end}
          at={line[end]}
          surface={surface}
          label={`The ${end} of ${line.name}. Arrow keys move it.`}
          onKeyDown={(event) => ends.nudge(event, end)}
          onGrasp={() => ends.grasp(end)}
        />
      ))}
    </>
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
