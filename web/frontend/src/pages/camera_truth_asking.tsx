/** Ten questions about pictures, answered by keyboard, mouse or finger. They are sent together: until then each can be
 * answered again. */

import { useEffect, useRef, useState } from "preact/hooks";

import type { QuestionAnswer, QuestionsAnswer, TruthOfCamera } from "../answers";
import { ask, pictureUrl, words } from "../api";
import { Choice } from "../parts/choice";
import { Loading } from "../parts/states";

type Box = QuestionAnswer["others"][number];
type Verdict = "yes" | "no" | "student" | "teacher" | "counted" | "unsure";

interface Mark {
  box: Box;
  class: string;
}

interface Given {
  verdict: Verdict;
  missed: number | null;
  marked: Mark[];
}

const BATCH = 10;
/** A box smaller than this (of the picture's side) was a slip of the finger. */
const LEAST = 0.004;

/** An answer in words. */
function inWords(q: QuestionAnswer, given: Given): string {
  if (given.verdict === "counted") return given.missed === 0 ? "none was missed" : `${given.missed} missed`;
  if (given.verdict === "unsure") return "not sure";
  if (given.verdict === "student") return "only the model's box fits";
  if (given.verdict === "teacher") return "only the teacher's box fits";
  return given.verdict === "yes" && q.student_box && q.teacher_box ? "yes, both fit" : given.verdict;
}

function title(q: QuestionAnswer, classes: string[]): string {
  if (q.kind === "missed") return `Is there ${classes.length === 1 ? `a ${classes[0]}` : classes.join(", ")} here that no box fits?`;
  return q.student_box && q.teacher_box ? `Is this a ${q.class}, and do both boxes fit?` : `Is this a ${q.class}, and does the box fit?`;
}

interface Props {
  path: string;
  onAnswered: (truth: TruthOfCamera) => void;
}

export function Asking({ path, onAnswered }: Props) {
  const [round, setRound] = useState(0);
  const [asked, setAsked] = useState<QuestionsAnswer | null>(null);
  const [error, setError] = useState("");
  const [at, setAt] = useState(0);
  const [given, setGiven] = useState<Record<number, Given>>({});
  const [marks, setMarks] = useState<Mark[]>([]);
  const [mine, setMine] = useState("");
  const [sending, setSending] = useState(false);

  useEffect(() => {
    let wanted = true;
    void ask<QuestionsAnswer>(`${path}/questions?limit=${BATCH}`)
      .then((found) => {
        if (!wanted) return;
        setAsked(found);
        setAt(0);
        setGiven({});
        setMarks([]);
        setError("");
      })
      .catch((failure: unknown) => wanted && setError(words(failure)));
    return () => {
      wanted = false;
    };
  }, [path, round]);

  const all = asked?.questions ?? [];
  const classes = asked?.classes ?? [];
  const q = all[at];
  const answered = Object.keys(given).length;
  const complete = all.length > 0 && answered === all.length;

  const move = (to: number): void => {
    if (to < 0 || to >= all.length) return;
    setAt(to);
    setMarks(given[to]?.marked ?? []);
  };
  const answer = (verdict: Verdict, missed: number | null = null): void => {
    if (q === undefined || sending) return;
    const kept = verdict === "counted" ? marks : [];
    const next = { ...given, [at]: { verdict, missed: missed === null ? null : Math.max(missed, kept.length), marked: kept } };
    setGiven(next);
    const open = all.findIndex((_, n) => n > at && next[n] === undefined);
    if (open >= 0) move(open);
    else if (at + 1 < all.length) move(at + 1);
  };
  const undo = (): void => {
    if (marks.length > 0 && given[at] === undefined) return setMarks(marks.slice(0, -1));
    const last = given[at] !== undefined ? at : at - 1;
    if (last < 0) return;
    const { [last]: _, ...rest } = given;
    setGiven(rest);
    setAt(last);
    setMarks([]);
  };
  const send = async (): Promise<void> => {
    if (answered === 0 || sending) return;
    setSending(true);
    const answers = Object.entries(given).map(([n, g]) => {
      const { window, frame, kind, candidate } = all[Number(n)]!;
      const about = { window, frame, kind, candidate, verdict: g.verdict };
      return g.verdict === "counted" ? { ...about, missed: g.missed, marked: g.marked } : about;
    });
    try {
      onAnswered(await ask<TruthOfCamera>(`${path}/answers`, "POST", { answers }));
      setRound(round + 1);
    } catch (failure) {
      setError(words(failure));
    }
    setSending(false);
  };

  const keys = (event: KeyboardEvent): void => {
    const field = event.target instanceof HTMLElement && event.target.closest("input, select, textarea, dialog, [role=tablist]");
    if (field || event.ctrlKey || event.altKey || event.metaKey || q === undefined) return;
    const pressed = event.key.toLowerCase();
    const pair = q.student_box !== null && q.teacher_box !== null;
    const missed = q.kind === "missed";
    const done: Record<string, () => void> = {
      u: () => answer("unsure"),
      arrowleft: () => move(at - 1),
      arrowright: () => move(at + 1),
      z: undo,
      backspace: undo,
      n: () => (missed ? answer("counted", 0) : answer("no")),
      ...(missed ? { y: () => marks.length > 0 && answer("counted", marks.length) } : { y: () => answer("yes") }),
      ...(pair ? { "1": () => answer("student"), "2": () => answer("teacher") } : {}),
    };
    let act = done[pressed];
    if (missed && /^\d$/.test(pressed)) act = () => answer("counted", Number(pressed));
    // Enter on a button presses it.
    if (pressed === "enter" && !(event.target instanceof HTMLButtonElement)) act = () => void send();
    if (act === undefined) return;
    event.preventDefault();
    act();
  };
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const listen = (event: KeyboardEvent): void => latest.current(event);
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);

  if (asked === null) return error === "" ? <Loading what="Loading questions" /> : <p role="alert">{error}</p>;
  if (q === undefined) return <p class="quiet">Every question about this window was answered. With the next window there are new ones.</p>;
  const pair = q.student_box !== null && q.teacher_box !== null;
  return (
    <div class="card truth-asking">
      <p class="quiet" role="status">
        Question {at + 1} of {all.length}
        {given[at] && <>: answered “{inWords(q, given[at])}”</>}
      </p>
      <h3 aria-live="polite">{title(q, classes)}</h3>
      <Picture key={`${q.frame}/${q.kind}/${q.candidate}`} path={path} question={q} marks={marks} onMark={(box) => setMarks([...marks, { box, class: mine || (classes[0] ?? "") }])} />
      {pair && (
        <p class="legend-row">
          <span>
            <span class="box-key student" aria-hidden="true" /> solid blue: the camera's model
          </span>
          <span>
            <span class="box-key teacher" aria-hidden="true" /> dashed yellow: the teacher
          </span>
        </p>
      )}
      <div class="actions truth-answers">
        {q.kind === "box" ? (
          <>
            <Key name="Y" onClick={() => answer("yes")} text={pair ? "Yes, both" : "Yes"} />
            <Key name="N" onClick={() => answer("no")} text="No" />
            {pair && <Key name="1" onClick={() => answer("student")} text="Only blue" />}
            {pair && <Key name="2" onClick={() => answer("teacher")} text="Only yellow" />}
          </>
        ) : (
          <>
            <Key name="N" onClick={() => answer("counted", 0)} text="None" />
            {marks.length > 0 && <Key name="Y" onClick={() => answer("counted", marks.length)} text={`These ${marks.length}`} />}
            {[1, 2, 3, 4, 5].filter((n) => n > marks.length).map((n) => (
              <Key key={n} name={String(n)} onClick={() => answer("counted", n)} text="" />
            ))}
          </>
        )}
        <Key name="U" onClick={() => answer("unsure")} text="Not sure" />
      </div>
      {q.kind === "missed" && (
        <div class="truth-missed">
          <p class="quiet">
            Draw a box around each, or press how many there are (0 to 9).
            {marks.length > 0 && ` ${marks.length} marked.`}
          </p>
          {classes.length > 1 && (
            <Choice label="A new box is a" value={mine || classes[0]!} options={classes.map((c) => [c, c] as const)} onChange={setMine} />
          )}
        </div>
      )}
      {error !== "" && <p role="alert">{error}</p>}
      <div class="actions end">
        <button type="button" disabled={at === 0} onClick={() => move(at - 1)}>
          ← Back
        </button>
        <button type="button" disabled={answered === 0 && marks.length === 0} onClick={undo}>
          Undo <kbd>Z</kbd>
        </button>
        <button type="button" class={complete ? "primary" : ""} disabled={answered === 0 || sending} onClick={() => void send()}>
          Send {answered} {answered === 1 ? "answer" : "answers"} <kbd>Enter</kbd>
        </button>
      </div>
    </div>
  );
}

function Key({ name, text, onClick }: { name: string; text: string; onClick: () => void }) {
  return (
    <button type="button" onClick={onClick}>
      <kbd>{name}</kbd> {text}
    </button>
  );
}

interface PictureProps {
  path: string;
  question: QuestionAnswer;
  marks: Mark[];
  onMark: (box: Box) => void;
}

/** The part of the picture that a box is in, enlarged; of a missed question the whole picture, to draw in. */
function Picture({ path, question: q, marks, onMark }: PictureProps) {
  const [w, h] = [q.width, q.height];
  const [drawn, setDrawn] = useState<Box | null>(null);
  const svg = useRef<SVGSVGElement>(null);
  const boxes = [
    { side: "student", box: q.student_box },
    { side: "teacher", box: q.teacher_box },
  ];
  const view = q.kind === "missed" ? [0, 0, w, h] : crop(q);
  const source = pictureUrl(`${path}/pictures/${q.window}/${q.frame}.jpg`);

  const point = (event: PointerEvent): [number, number] => {
    const matrix = svg.current?.getScreenCTM()?.inverse();
    const p = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix);
    return [Math.min(1, Math.max(0, p.x / w)), Math.min(1, Math.max(0, p.y / h))];
  };
  const down = (event: PointerEvent): void => {
    if (q.kind !== "missed" || event.button !== 0) return;
    const [x, y] = point(event);
    svg.current?.setPointerCapture(event.pointerId);
    setDrawn([x, y, x, y]);
  };
  const moved = (event: PointerEvent): void => {
    if (drawn === null) return;
    const [x, y] = point(event);
    setDrawn([drawn[0], drawn[1], x, y]);
  };
  const up = (): void => {
    if (drawn === null) return;
    const [x1, y1, x2, y2] = drawn;
    const box: Box = [Math.min(x1, x2), Math.min(y1, y2), Math.max(x1, x2), Math.max(y1, y2)];
    setDrawn(null);
    if (box[2] - box[0] >= LEAST && box[3] - box[1] >= LEAST) onMark(box);
  };
  const rect = (box: Box, kind: string, key: string) => (
    <g key={key} class={kind}>
      <rect class="under" x={box[0] * w} y={box[1] * h} width={Math.abs(box[2] - box[0]) * w} height={Math.abs(box[3] - box[1]) * h} />
      <rect x={box[0] * w} y={box[1] * h} width={Math.abs(box[2] - box[0]) * w} height={Math.abs(box[3] - box[1]) * h} />
    </g>
  );
  const sketch: Box | null = drawn && [Math.min(drawn[0], drawn[2]), Math.min(drawn[1], drawn[3]), Math.max(drawn[0], drawn[2]), Math.max(drawn[1], drawn[3])];
  return (
    <svg
      ref={svg}
      class={`truth-picture ${q.kind}`}
      viewBox={view.join(" ")}
      role="img"
      aria-label={q.kind === "missed" ? `the whole picture, with ${q.others.length} boxes` : `a part of the picture around the box, ${place(q)}`}
      onPointerDown={down}
      onPointerMove={moved}
      onPointerUp={up}
      onPointerCancel={() => setDrawn(null)}
    >
      <image href={source} x={0} y={0} width={w} height={h} preserveAspectRatio="none" />
      {q.others.map((box, n) => rect(box, "other", `other-${n}`))}
      {boxes.map(({ side, box }) => box && rect(box, side, side))}
      {marks.map((m, n) => rect(m.box, "mark", `mark-${n}`))}
      {sketch && rect(sketch, "mark", "sketch")}
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
