/** How true the labels are: people answer a few questions, and student and teacher get their true accuracy from them. */

import { useEffect, useRef, useState } from "preact/hooks";

import type { FindingAnswer, ImportedLabels, TruthEstimate, TruthInterval, TruthOfCamera } from "../answers";
import type { Camera, Me } from "../api";
import { ask, pictureUrl, words } from "../api";
import { useAsked } from "../parts/asking";
import { Icon } from "../parts/icon";
import { Empty, ErrorBox, Loading } from "../parts/states";
import { Asking } from "./camera_truth_asking";
import { importParts } from "./camera_truth_import";

interface Props {
  camera: Camera;
  me: Me;
  /** Newest measured window: with a new one there may be new pictures. */
  latest: number | null;
}

const whole = (value: number): string => (100 * value).toFixed(0);

/** "Student 71 % (64 to 78)". */
function said(name: string, { value, low, high }: TruthInterval): string {
  return `${name} ${whole(value)} % (${whole(low)} to ${whole(high)})`;
}

function halve(estimate: TruthEstimate): string {
  const more = Math.max(estimate.student.more_to_halve ?? 0, estimate.teacher.more_to_halve ?? 0);
  if (more === 0) return "Every question was answered.";
  return `${more} more ${more === 1 ? "answer" : "answers"} would halve both intervals.`;
}

/** The finding in the words of the page. */
function finding({ kind, value, window }: FindingAnswer): string {
  if (kind === "teacher_worse")
    return `The teacher is worse than its student: ${whole(value)} points below it in window ${window}. Retraining on its labels may make the student worse; take another teacher.`;
  return `People contradict each other on ${value} ${value === 1 ? "question" : "questions"} of window ${window}. The majority counts; at a tie a question counts as unanswered, and the intervals are wider.`;
}

export function TruthTab({ camera, me, latest }: Props) {
  const path = `/cameras/${encodeURIComponent(camera.id)}/truth`;
  const asked = useAsked<TruthOfCamera>(path, latest);
  const [newer, setNewer] = useState<TruthOfCamera | null>(null);
  useEffect(() => setNewer(null), [asked.value]);
  const truth = newer ?? asked.value;
  const operator = me.role !== "viewer";
  if (truth === null) {
    if (asked.error === null) return <Loading />;
    return <ErrorBox what="True accuracy could not be loaded" error={asked.error} onRetry={asked.again} />;
  }
  if (!truth.detection) {
    return (
      <Empty title="This camera classifies">True accuracy is stated for cameras whose model detects objects.</Empty>
    );
  }
  return (
    <section class="truth" aria-labelledby="truth-title">
      <div class="card-head">
        <h2 id="truth-title">True accuracy</h2>
        <span class="truth-files">
          <a href={pictureUrl(`${path}/export?format=coco`)} download>
            Labels as COCO
          </a>{" "}
          <a href={pictureUrl(`${path}/export?format=yolo`)} download>
            as YOLO
          </a>
          {operator && <ImportFiles path={path} onDone={asked.again} />}
        </span>
      </div>
      <div aria-live="polite">
        {truth.estimate === null ? (
          <p class="quiet">
            Other figures on this page compare the camera's model with its teacher, and the teacher errs too. Answer a few
            questions about pictures, and this panel says how right both really are.{" "}
            {truth.asking !== null && `${truth.answers_needed} answers are needed for a first estimate.`}
          </p>
        ) : (
          <TruthSummary truth={truth} estimate={truth.estimate} />
        )}
      </div>
      {truth.findings.map((f) => (
        <p key={f.kind} class={`truth-finding ${f.kind === "teacher_worse" ? "bad" : ""}`} role="note">
          <Icon name="bad" size={16} /> {finding(f)}
        </p>
      ))}
      {truth.asking === null ? (
        <Empty title="No pictures to ask about yet">
          The teacher labels a sample of pictures of each window. Questions about them can be answered here once a window is over.
        </Empty>
      ) : operator ? (
        <Asking key={`${camera.id}/${truth.asking}`} path={path} onAnswered={setNewer} />
      ) : (
        <p class="quiet">Operators can answer questions here.</p>
      )}
    </section>
  );
}

function TruthSummary({ truth, estimate }: { truth: TruthOfCamera; estimate: TruthEstimate }) {
  const older = truth.history.filter((h) => h.window !== truth.window);
  return (
    <>
      <p class="truth-summary">
        <strong>
          {said("Student", estimate.student)}, {said("teacher", estimate.teacher)}.
        </strong>{" "}
        {halve(estimate)}
      </p>
      <Range name="Student" of={estimate.student} side="student" />
      <Range name="Teacher" of={estimate.teacher} side="teacher" />
      <p class="quiet">
        F1 against what people see in window {truth.window}, with the interval that holds the truth in nine of ten such cases;
        from {estimate.answers} {estimate.answers === 1 ? "answer" : "answers"} and the labels of {estimate.frames} pictures.
        {estimate.unsure > 0 && ` ${estimate.unsure} ${estimate.unsure === 1 ? "question has" : "questions have"} no sure answer.`}
      </p>
      {older.length > 0 && (
        <details>
          <summary>Earlier windows</summary>
          <ul>
            {older.map((h) => (
              <li key={h.window}>
                Window {h.window}: {said("student", h.estimate.student)}, {said("teacher", h.estimate.teacher)}
              </li>
            ))}
          </ul>
        </details>
      )}
    </>
  );
}

/** The interval on a line from 0 to 100 %; in words it stands above. */
function Range({ name, of, side }: { name: string; of: TruthInterval; side: string }) {
  return (
    <div class="truth-range" aria-hidden="true">
      <span>{name}</span>
      <span class={`truth-line ${side}`}>
        <span class="span" style={{ left: `${100 * of.low}%`, width: `${Math.max(0.5, 100 * (of.high - of.low))}%` }} />
        <span class="at" style={{ left: `${100 * of.value}%` }} />
      </span>
    </div>
  );
}

/** A COCO file from disk. */
/** Label files of people: one COCO file, or YOLO texts with their classes.txt. */
function ImportFiles({ path, onDone }: { path: string; onDone: () => void }) {
  const field = useRef<HTMLInputElement>(null);
  const [complete, setComplete] = useState(false);
  const [outcome, setOutcome] = useState("");
  const read = async (): Promise<void> => {
    const files = [...(field.current?.files ?? [])];
    if (files.length === 0) return;
    const sum = { pictures: 0, answers: 0, incomplete: 0, unknown: 0 };
    const said = (): string => `${sum.answers} answers were added${leftOut(sum)}.`;
    try {
      const parts = importParts(await Promise.all(files.map(async (f) => [f.name, await f.text()] as const)));
      for (const [number, part] of parts.entries()) {
        if (parts.length > 1) setOutcome(`Part ${number + 1} of ${parts.length}`);
        const done = await ask<ImportedLabels>(`${path}/import`, "POST", { ...part, complete });
        for (const key of ["pictures", "answers", "incomplete", "unknown"] as const) sum[key] += done[key];
      }
      setOutcome(said());
    } catch (error) {
      setOutcome(`${sum.answers > 0 ? `${said()} Then: ` : ""}The file was not imported: ${words(error)}`);
    }
    if (sum.answers > 0) onDone();
    if (field.current !== null) field.current.value = "";
  };
  return (
    <>
      <label class="truth-import">
        <span>Import COCO or YOLO</span>
        <input ref={field} type="file" multiple accept=".json,.txt,application/json,text/plain" onChange={() => void read()} />
      </label>
      <label>
        <input type="checkbox" checked={complete} onChange={(e) => setComplete(e.currentTarget.checked)} /> every picture holds all its objects
      </label>
      <span role="status">{outcome}</span>
    </>
  );
}

function leftOut({ pictures, incomplete, unknown }: { pictures: number; incomplete: number; unknown: number }): string {
  const why = [
    incomplete > 0 ? `${incomplete} do not say that all their objects are in them` : "",
    unknown > 0 ? `${unknown} are not here any more` : "",
  ].filter((w) => w !== "");
  return why.length > 0 ? `; of ${pictures} pictures ${why.join(", ")}` : "";
}
