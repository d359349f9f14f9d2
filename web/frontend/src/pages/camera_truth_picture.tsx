/** The picture of a question: the part that a box is in, enlarged; of a missed question the whole picture, to draw in. */

import type { RefObject } from "preact";
import { useRef, useState } from "preact/hooks";

import type { QuestionAnswer } from "../answers";
import { pictureUrl } from "../api";
import { DrawnBox } from "../parts/drawn_box";
import type { Box, Mark } from "./camera_truth_batch";

/** A box smaller than this (of the picture's side) was a slip of the finger. */
const LEAST = 0.004;

interface Sketch {
  svg: RefObject<SVGSVGElement | null>;
  /** The box so far; null: none is drawn. */
  box: Box | null;
  down: (event: PointerEvent) => void;
  move: (event: PointerEvent) => void;
  up: () => void;
  cancel: () => void;
}

function ordered([x1, y1, x2, y2]: Box): Box {
  return [Math.min(x1, x2), Math.min(y1, y2), Math.max(x1, x2), Math.max(y1, y2)];
}

/** A box that is drawn with the pointer, where the question is about missed objects. */
function useSketch(q: QuestionAnswer, onMark: (box: Box) => void): Sketch {
  const [drawn, setDrawn] = useState<Box | null>(null);
  const svg = useRef<SVGSVGElement>(null);
  const point = (event: PointerEvent): [number, number] => {
    const matrix = svg.current?.getScreenCTM()?.inverse();
    const p = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix);
    return [Math.min(1, Math.max(0, p.x / q.width)), Math.min(1, Math.max(0, p.y / q.height))];
  };
  return {
    svg,
    box: drawn && ordered(drawn),
    down: (event) => {
      if (q.kind !== "missed" || event.button !== 0) return;
      const [x, y] = point(event);
      svg.current?.setPointerCapture(event.pointerId);
      setDrawn([x, y, x, y]);
    },
    move: (event) => {
      if (drawn === null) return;
      const [x, y] = point(event);
      setDrawn([drawn[0], drawn[1], x, y]);
    },
    up: () => {
      if (drawn === null) return;
      const box = ordered(drawn);
      setDrawn(null);
      if (box[2] - box[0] >= LEAST && box[3] - box[1] >= LEAST) onMark(box);
    },
    cancel: () => setDrawn(null),
  };
}

interface Props {
  path: string;
  question: QuestionAnswer;
  marks: Mark[];
  onMark: (box: Box) => void;
}

export function QuestionPicture({ path, question: q, marks, onMark }: Props) {
  const sketch = useSketch(q, onMark);
  const size = { width: q.width, height: q.height };
  const view = q.kind === "missed" ? [0, 0, q.width, q.height] : crop(q);
  return (
    <svg
      ref={sketch.svg}
      class={`truth-picture ${q.kind}`}
      viewBox={view.join(" ")}
      role="img"
      aria-label={q.kind === "missed" ? `the whole picture, with ${q.others.length} boxes` : `a part of the picture around the box, ${place(q)}`}
      onPointerDown={sketch.down}
      onPointerMove={sketch.move}
      onPointerUp={sketch.up}
      onPointerCancel={sketch.cancel}
    >
      <image href={pictureUrl(`${path}/pictures/${q.window}/${q.frame}.jpg`)} x={0} y={0} {...size} preserveAspectRatio="none" />
      {q.others.map((box, n) => <DrawnBox key={`other-${n}`} box={box} of="other" {...size} />)}
      {q.student_box && <DrawnBox box={q.student_box} of="student" {...size} />}
      {q.teacher_box && <DrawnBox box={q.teacher_box} of="teacher" {...size} />}
      {marks.map((m, n) => <DrawnBox key={`mark-${n}`} box={m.box} of="mark" {...size} />)}
      {sketch.box && <DrawnBox box={sketch.box} of="mark" {...size} />}
    </svg>
  );
}

/** [x, y, width, height] in pixels: three times the boxes and a piece of street around, 16:10, inside the picture. */
function crop(q: QuestionAnswer): number[] {
  const all = [q.student_box, q.teacher_box].filter((b) => b !== null);
  const [left, top] = [Math.min(...all.map((b) => b[0])) * q.width, Math.min(...all.map((b) => b[1])) * q.height];
  const [right, bottom] = [Math.max(...all.map((b) => b[2])) * q.width, Math.max(...all.map((b) => b[3])) * q.height];
  const width = Math.min(q.width, Math.max(3 * (right - left), 4.8 * (bottom - top), 0.2 * q.width));
  const height = Math.min(q.height, width / 1.6);
  const x = Math.min(Math.max(0, (left + right - width) / 2), q.width - width);
  const y = Math.min(Math.max(0, (top + bottom - height) / 2), q.height - height);
  return [x, y, width, height];
}

function place(q: QuestionAnswer): string {
  const box = q.teacher_box ?? q.student_box;
  if (box === null) return "";
  const [x, y] = [(box[0] + box[2]) / 2, (box[1] + box[3]) / 2];
  const third = (v: number, names: [string, string, string]): string => names[Math.min(2, Math.floor(3 * v))]!;
  return `${third(y, ["top", "middle", "bottom"])} ${third(x, ["left", "centre", "right"])}`;
}
