/** Ten questions about pictures, answered by keyboard, mouse or finger. They are sent together: until then each can be
 * answered again. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import type { QuestionAnswer, TruthOfCamera } from "../answers";
import { BoxLegend } from "../parts/drawn_box";
import { Choice } from "../parts/choice";
import { Loading } from "../parts/states";
import type { Batch, Given } from "./camera_truth_batch";
import { useBatch } from "./camera_truth_batch";
import { QuestionPicture } from "./camera_truth_picture";

function hasBoth(q: QuestionAnswer): boolean {
  return q.student_box !== null && q.teacher_box !== null;
}

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

/** The act of a key about a question; undefined: it has none. */
function actOf(event: KeyboardEvent, q: QuestionAnswer, { marks, at, move, answer, undo, send }: Batch): (() => void) | undefined {
  const pressed = event.key.toLowerCase();
  const missed = q.kind === "missed";
  // Enter on a button presses it.
  if (pressed === "enter" && !(event.target instanceof HTMLButtonElement)) return send;
  if (missed && /^\d$/.test(pressed)) return () => answer("counted", Number(pressed));
  const acts: Record<string, () => void> = {
    u: () => answer("unsure"),
    arrowleft: () => move(at - 1),
    arrowright: () => move(at + 1),
    z: undo,
    backspace: undo,
    n: () => (missed ? answer("counted", 0) : answer("no")),
    ...(missed ? { y: () => marks.length > 0 && answer("counted", marks.length) } : { y: () => answer("yes") }),
    ...(hasBoth(q) ? { "1": () => answer("student"), "2": () => answer("teacher") } : {}),
  };
  return acts[pressed];
}

/** The keys of the whole page answer, where no field has them. */
function useAnswerKeys(batch: Batch): void {
  const keys = (event: KeyboardEvent): void => {
    const field = event.target instanceof HTMLElement && event.target.closest("input, select, textarea, dialog, [role=tablist]");
    if (field || event.ctrlKey || event.altKey || event.metaKey || batch.question === undefined) return;
    const act = actOf(event, batch.question, batch);
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
}

interface Props {
  path: string;
  onAnswered: (truth: TruthOfCamera) => void;
}

export function Asking({ path, onAnswered }: Props) {
  const [second, setSecond] = useState(false);
  const batch = useBatch(path, second, onAnswered);
  const [mine, setMine] = useState("");
  useAnswerKeys(batch);
  const { questions, classes, question: q, at, marks, error } = batch;

  if (questions === null) return error === "" ? <Loading what="Loading questions" /> : <p role="alert">{error}</p>;
  const other = <Other second={second} onChange={() => setSecond(!second)} />;
  if (q === undefined) return <NoneLeft second={second}>{other}</NoneLeft>;
  const given = batch.given[at];
  return (
    <div class="card truth-asking">
      <p class="quiet" role="status">
        Question {at + 1} of {questions.length}
        {given && <>: answered “{inWords(q, given)}”</>}
      </p>
      <h3 aria-live="polite">{title(q, classes)}</h3>
      <QuestionPicture
        key={`${q.frame}/${q.kind}/${q.candidate}`}
        path={path}
        question={q}
        marks={marks}
        onMark={(box) => batch.mark({ box, class: mine || (classes[0] ?? "") })}
      />
      {hasBoth(q) && <BoxLegend />}
      <Answers question={q} batch={batch} />
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
      <Send batch={batch} of={questions.length} />
      {other}
    </div>
  );
}

function Other({ second, onChange }: { second: boolean; onChange: () => void }) {
  return (
    <p class="quiet">
      <button type="button" class="link" onClick={onChange}>
        {second ? "Unanswered questions" : "Second opinions on answered questions"}
      </button>
    </p>
  );
}

function NoneLeft({ second, children }: { second: boolean; children: ComponentChildren }) {
  return (
    <>
      <p class="quiet">
        {second
          ? "No answer of another person about this window is left for a second opinion of yours."
          : "Every question about this window was answered. With the next window there are new ones."}
      </p>
      {children}
    </>
  );
}

/** The possible answers, each with its key. */
function Answers({ question: q, batch: { marks, answer } }: { question: QuestionAnswer; batch: Batch }) {
  const both = hasBoth(q);
  return (
    <div class="actions truth-answers">
      {q.kind === "box" ? (
        <>
          <Key name="Y" onClick={() => answer("yes")} text={both ? "Yes, both" : "Yes"} />
          <Key name="N" onClick={() => answer("no")} text="No" />
          {both && <Key name="1" onClick={() => answer("student")} text="Only blue" />}
          {both && <Key name="2" onClick={() => answer("teacher")} text="Only yellow" />}
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
  );
}

/** Going back, taking back, and sending; `of`: the number of questions. */
function Send({ batch: { at, answered, marks, sending, move, undo, send }, of }: { batch: Batch; of: number }) {
  return (
    <div class="actions end">
      <button type="button" disabled={at === 0} onClick={() => move(at - 1)}>
        ← Back
      </button>
      <button type="button" disabled={answered === 0 && marks.length === 0} onClick={undo}>
        Undo <kbd>Z</kbd>
      </button>
      <button type="button" class={answered === of ? "primary" : ""} disabled={answered === 0 || sending} onClick={send}>
        Send {answered} {answered === 1 ? "answer" : "answers"} <kbd>Enter</kbd>
      </button>
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
