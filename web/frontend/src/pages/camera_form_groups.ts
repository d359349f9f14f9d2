/** The fields of a camera's form, in groups; the schema gives their controls and ranges. */

import type { KnownDescription } from "../answers";
import type { Group } from "../parts/schema_form";

/** Fields that only an administrator may change: they reach into the network or name a secret. */
const GUARDED = new Set(["url", "username", "password_from", "transport", "student.weights", "student.model"]);

const WATCHES: Group = {
  title: "What it watches",
  fields: [
    { path: "task", label: "Task", hint: "detection: where objects are; classification: what a picture shows" },
    { path: "classes", label: "Classes", hint: "Kinds of objects, as a list: car, bus, person. With other classes its model starts anew." },
    { path: "class_map", label: "Names of the golden model", control: "lines", hint: "One class a line, where the golden model calls it otherwise: van = car, truck" },
  ],
};

const RETRAINING: Group = {
  title: "Retraining",
  fields: [
    { path: "retraining.enabled", label: "Retrain", hint: "Off: its model stays as it is" },
    { path: "retraining.every_kth_window", label: "Every so many windows", unit: "windows" },
    { path: "retraining.label_budget", label: "Label budget", unit: "frames", hint: "Labelled frames per window; empty: the site's" },
  ],
};

const CLIPS: Group = {
  title: "Clips",
  folded: true,
  fields: [
    { path: "clips.enabled", label: "Keep video in memory", hint: "The last seconds of its video, for clips of alarms and moments" },
    { path: "clips.before_s", label: "Before", unit: "s", hint: "A clip begins so long before its moment; empty: the site's" },
    { path: "clips.after_s", label: "After", unit: "s", hint: "Empty: the site's" },
  ],
};

function camera(isNew: boolean): Group {
  return {
    title: "Camera",
    fields: [
      ...(isNew ? [{ path: "id", label: "Id", hint: "Small letters, digits, - and _; it does not change" }] : []),
      { path: "name", label: "Name", hint: "For people; empty: the id" },
      { path: "enabled", label: "Switched on", hint: "Off: not connected, not retrained; its history stays" },
    ],
  };
}

function connection(password: Group["fields"]): Group {
  return {
    title: "Connection",
    fields: [
      { path: "url", label: "Address", hint: "rtsp://, rtsps://, or the path of a file or folder. Without a password in it." },
      { path: "transport", label: "Transport", hint: "tcp loses no packets; udp for cameras that know nothing else" },
      { path: "username", label: "User name" },
      ...password,
      { path: "stall_timeout_s", label: "Lost after", unit: "s", hint: "So long without a picture" },
      { path: "max_fps", label: "Frames a second, at most", hint: "Empty: as they come" },
    ],
  };
}

function more(secrets: string[]): Group {
  return {
    title: "More",
    folded: true,
    fields: [
      { path: "password_from", label: "Password reference", hint: "Where the password is kept: secret:NAME (Settings, Secrets), or what the configuration file allows", suggestions: secrets },
      { path: "seconds_per_picture", label: "Seconds per picture", unit: "s", hint: "For a folder of stills" },
      { path: "inference.frame_rates", label: "Frame rates", hint: "That the planner may choose from, frames a second" },
      { path: "inference.resolutions", label: "Resolutions", hint: "That the planner may choose from, parts of the full size" },
      { path: "inference.score_threshold", label: "Least certainty", hint: "Objects that the model is less sure of are not reported; empty: chosen on past labels" },
      { path: "inference.region", label: "Looks at", hint: "auto: the part that past labels show to matter; off: the whole picture; or left,top,right,bottom in fractions: 0,0.2,1,1" },
      { path: "inference.shape", label: "Shape of the input", hint: "camera: the camera's proportions, at no more pixels; model: as the model was published" },
    ],
  };
}

/** The shipped models of a kind with their cost on this box, in words. */
function costWords(known: KnownDescription[], kind: KnownDescription["kind"]): string {
  const models = known
    .filter((k) => k.kind === kind)
    .map((k) => {
      const cost = k.answer_ms === null ? "not measured yet" : `${k.answer_ms.toFixed(0)} ms an answer on this box`;
      return `${k.name} (${k.here ? cost : "not here: magpie models pull " + k.name})`;
    });
  return models.join(", ");
}

function studentWords(known: KnownDescription[]): string {
  const teachers = costWords(known, "teacher");
  const teacher = teachers === "" ? "" : `. The site's file names the golden model, which teaches all cameras (teacher:): ${teachers}`;
  return `A published detector; empty: the site's. ${costWords(known, "student")}${teacher}`;
}

function model(known: KnownDescription[]): Group {
  const students = known.filter((k) => k.kind === "student");
  return {
    title: "Model",
    folded: true,
    fields: [
      { path: "student.model", label: "Begins as", hint: studentWords(known), suggestions: students.map((k) => k.name) },
      { path: "student.class_map", label: "Names of the published detector", control: "lines", hint: "One class a line, where it calls it otherwise: van = car, truck. Empty: as the golden model's" },
      { path: "student.architecture", label: "Architecture" },
      { path: "student.input_height", label: "Input height", unit: "px" },
      { path: "student.input_width", label: "Input width", unit: "px" },
      { path: "student.width", label: "Width" },
      { path: "student.last_layer_width", label: "Hidden layer" },
      { path: "student.weights", label: "First weights" },
    ],
  };
}

/** `password`: the fields that stand behind the user's name; `secrets` and `known` are suggested while one types. */
export function groups(isNew: boolean, admin: boolean, secrets: string[], password: Group["fields"], known: KnownDescription[]): Group[] {
  const found = [camera(isNew), connection(password), WATCHES, RETRAINING, CLIPS, more(secrets), model(known)];
  return found.map((g) => ({ ...g, fields: g.fields.map((f) => ({ ...f, disabled: !admin && GUARDED.has(f.path) })) }));
}
