/** Journal entries in plain words. */

import type { JournalEntry } from "./api";
import { config, percent, shortVersion } from "./format";

export type Tone = "good" | "bad" | "plain";

export interface Told {
  text: string;
  tone: Tone;
}

type Data = Record<string, unknown>;

function text(value: unknown): string {
  return typeof value === "string" ? value : value === null || value === undefined ? "" : JSON.stringify(value);
}

function number(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}

function because(data: Data): string {
  const reason = text(data["reason"]) || text(data["message"]);
  return reason ? `: ${reason}` : "";
}

function version(data: Data, camera: string): string {
  return shortVersion(text(data["version"]), camera);
}

function scores(data: Data): string {
  const found = data["scores"] as Record<string, number> | undefined;
  if (found?.["held_out"] === undefined || found["parent_held_out"] === undefined) return "";
  return `: ${percent(found["held_out"])} instead of ${percent(found["parent_held_out"])} on held-out frames`;
}

const KNOWN: Record<string, (d: Data, e: JournalEntry) => string | Told> = {
  "appliance.started": (d) => `The appliance started (version ${text(d["version"])})`,
  "golden.ready": () => "The golden model is ready to label",
  "camera.added": () => "was added",
  "camera.changed": () => "was changed",
  "camera.removed": () => "was removed",
  "camera.worker_up": () => "its worker runs",
  "camera.connecting": () => "connecting",
  "camera.live": () => ({ text: "pictures come", tone: "good" }),
  "camera.stalled": (d) => ({ text: `no new picture${because(d)}`, tone: "bad" }),
  "camera.reconnecting": (d) => ({ text: `connection lost, trying again${because(d)}`, tone: "bad" }),
  "camera.refused": (d) => ({ text: `the camera refuses the connection${because(d)}`, tone: "bad" }),
  "camera.stopped": () => "stopped",
  "retraining.settings": (d) => `Settings changed (${(d["fields"] as string[] | undefined)?.join(", ") ?? ""})`,
  "window.opened": (_, e) => `Window ${e.window ?? ""} began`,
  "window.closed": (_, e) => `Window ${e.window ?? ""} ended`,
  "window.resumed": (_, e) => `Window ${e.window ?? ""} goes on after a restart`,
  "window.no_labels": (_, e) => ({ text: `no labelled frames for window ${e.window ?? ""}`, tone: "bad" }),
  "sample.not_closed": (d) => ({ text: `its sample was not closed in time${because(d)}`, tone: "bad" }),
  "window.measured": (d, e) =>
    `window ${e.window ?? ""}: ${percent(number(d["realised"]))} right, the frozen model ${percent(number(d["frozen"]))}`,
  plan: (d) => {
    const cause = text(d["cause"]);
    return `New plan by ${text(d["policy"])}${cause && ` (${cause})`}: expects ${percent(number(d["objective"]))} on average`;
  },
  profiled: (d) => `${text(d["configs"])} ways to retrain were estimated`,
  "inference.changed": (d) => {
    const l = d["lambda"] as { frame_rate: number; resolution: number } | undefined;
    return l ? `answers ${l.frame_rate} frames a second at ${percent(l.resolution)} size now` : "inference changed";
  },
  "retraining.started": (d) => `retraining began: ${config(text(d["config"]))}`,
  "retraining.stopped": (d) => `retraining ended early${because(d)}`,
  "retraining.failed": (d) => ({ text: `retraining failed${because(d)}`, tone: "bad" }),
  "model.promoted": (d) => ({ text: `a better model is in force${scores(d)}`, tone: "good" }),
  "model.rejected": (d) => `the retrained model was not put in force${because(d)}`,
  "model.switched": (d) => `the new model answers; ${text(d["frames_lost"])} frames lost in the switch`,
  "model.rolled_back": (d, e) => ({
    text: `rolled back to ${version(d, e.camera ?? "")} by ${text(d["by"])}${because(d)}`,
    tone: "bad",
  }),
  "model.pinned": (d, e) => `${version(d, e.camera ?? "")} was pinned`,
  "model.unpinned": (d, e) => `${version(d, e.camera ?? "")} was unpinned`,
  "worker.worker_lost": (d) => ({ text: `worker ${text(d["worker"])} was lost and is started again${because(d)}`, tone: "bad" }),
  "worker.worker_error": (d) => ({ text: `worker ${text(d["worker"])} reports an error${because(d)}`, tone: "bad" }),
  "worker.respawn": (d) => `worker ${text(d["worker"])} is started anew with another share`,
  "worker.share_refused": (d) => ({ text: `a share for ${text(d["worker"])} was refused${because(d)}`, tone: "bad" }),
  "events.lost": (d) => ({ text: `This page was too slow: ${text(d["events"])} events are missing here`, tone: "bad" }),
};

/** One entry in words, without its camera's name. */
export function tell(entry: JournalEntry): Told {
  const known = KNOWN[entry.kind];
  if (known) {
    const told = known(entry.data, entry);
    return typeof told === "string" ? { text: told, tone: "plain" } : told;
  }
  if (entry.kind.startsWith("complaint.")) return { text: text(entry.data["message"]) || entry.kind, tone: "bad" };
  return { text: `${entry.kind.replaceAll(/[._]/g, " ")}${because(entry.data)}`, tone: "plain" };
}
