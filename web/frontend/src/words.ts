/** Journal entries in plain words. */

import type { ConfigAnswer } from "./answers";
import type { Camera, JournalEntry } from "./api";
import type { Version } from "./format";
import { bytes, config, counted, duration, percent, shortVersion } from "./format";
import { FORGOTTEN } from "./parts/tenants";

export type Tone = "good" | "bad" | "plain";

export interface EntryText {
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

/** Shares of tenants that moved: ": gate 30 % → 35 %, parking 40 % → 35 %". */
function movedShares(data: Data): string {
  const now = (data["shares"] ?? {}) as Record<string, number>;
  const before = (data["before"] ?? {}) as Record<string, number>;
  const moved = Object.entries(now).flatMap(([tenant, share]) => {
    const old = before[tenant];
    if (old === undefined) return [`${tenant} has ${percent(share)}`];
    return Math.abs(share - old) < 0.005 ? [] : [`${tenant} ${percent(old)} → ${percent(share)}`];
  });
  return moved.length > 0 ? `: ${moved.join(", ")}` : "";
}

/** Of a group's retraining: the cameras that it is for too, and the one that it is of. */
function together(members: unknown): string {
  return Array.isArray(members) && members.length > 0 ? `, for ${names(members)} too` : "";
}

function led(leader: unknown): string {
  return text(leader) ? `, retrained as one with ${text(leader)}` : "";
}

/** Other boxes of the fleet whose cameras taught. */
function ofBoxes(boxes: unknown): string {
  return Array.isArray(boxes) && boxes.length > 0 ? `, with cameras of the ${boxes.length > 1 ? "boxes" : "box"} ${names(boxes)}` : "";
}

function names(value: unknown): string {
  return Array.isArray(value) ? value.map(text).join(", ") : text(value);
}

function many(value: unknown, one: string): string {
  return counted(number(value) ?? 0, one);
}

function by(data: Data): string {
  const who = text(data["by"]);
  return who ? ` by ${who}` : "";
}

function bad(words: string): EntryText {
  return { text: words, tone: "bad" };
}

/** A destination of messages: the broker, or "webhook/pager". */
function destination(data: Data): string {
  const name = text(data["destination"]);
  return name === "mqtt" ? "The MQTT broker" : `The output ${name}`;
}

const LOST_OUT: Record<string, string> = {
  removed: "it was removed",
  limit: "too much was waiting",
  age: "they were too old",
  refused: "they were too large",
  dead_letters: "too many were given up",
};

/** Why a clip could not be made. */
export const CLIP_FAULTS: Record<string, string> = {
  not_in_ring: "no video of its time was in memory",
  codec: "the camera's video is neither H.264 nor H.265",
  disk_full: "the disk is full",
  not_written: "the disk refused it",
  too_many: "too many were being made",
  camera_off: "the camera was switched off or removed",
  no_answer: "the camera's worker did not finish it",
  interrupted: "the appliance, or the camera's worker, was ended meanwhile",
  masks_changed: "the camera got masks while it was made",
};

function alarm(data: Data): string {
  return text(data["message"]) || text(data["rule"]);
}

/** Entries of an earlier version do not say where a model came from. */
function version(data: Data): string {
  const origin = (data["origin"] ?? null) as Version["origin"];
  return shortVersion({ id: text(data["version"]), origin, window: number(data["trained_on"]) });
}

function configWords(data: Data): string {
  return config(text(data["config"]), data["retraining"] as ConfigAnswer | undefined);
}

function scores(data: Data): string {
  const found = data["scores"] as Record<string, number> | undefined;
  if (found?.["held_out"] === undefined || found["parent_held_out"] === undefined) return "";
  return `: ${percent(found["held_out"])} instead of ${percent(found["parent_held_out"])} on held-out frames`;
}

const KNOWN: Record<string, (d: Data, e: JournalEntry) => string | EntryText> = {
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
  "retraining.settings": (d) => `Settings of the retraining windows changed${by(d)} (${names(d["fields"])})`,
  "serving.source": (d) =>
    d["reason"] ? `Application ${d["application"]} gets nothing: ${d["reason"]}` : `Application ${d["application"]} gets the camera's answers`,
  "serving.settings": (d) => `Settings of the served models changed${by(d)} (${names(d["fields"])})`,
  "outputs.settings": (d) => `Outputs changed${by(d)}`,
  "rule.added": (d) => `The rule ${text(d["rule"])} was added${by(d)}`,
  "rule.changed": (d) => `The rule ${text(d["rule"])} was changed${by(d)} (${names(d["fields"])})`,
  "rule.removed": (d) => `The rule ${text(d["rule"])} was removed${by(d)}`,
  "alarm.new": (d) => ({ text: `alarm: ${alarm(d)}`, tone: d["severity"] === "info" ? "plain" : "bad" }),
  "clip.made": (d) => `clip ${text(d["clip"])} was made (${number(d["seconds"])?.toFixed(0) ?? "?"} s)`,
  "clip.failed": (d) => bad(`clip ${text(d["clip"])} could not be made: ${CLIP_FAULTS[text(d["fault"])] ?? text(d["fault"])}`),
  "clip.removed": (d) => `clip ${text(d["clip"])} was deleted${by(d)}`,
  "alarm.update": (d) => `the alarm goes on: ${alarm(d)}`,
  "alarm.end": (d) => {
    const [began, ended] = [number(d["began_utc_s"]), number(d["ended_utc_s"])];
    const lasted = began !== null && ended !== null ? ` after ${duration(ended - began)}` : "";
    return `the alarm is over${lasted}: ${alarm(d)}`;
  },
  "alarm.acknowledged": (d) => {
    const who = text(d["acknowledged_by"]);
    return `the alarm was seen${who && ` by ${who}`}: ${alarm(d)}`;
  },
  complaint: (d) => bad(text(d["message"]) || "Something is wrong"),
  "journal.lost": (d) => bad(`Entries of the journal that could not be written: ${text(d["events"])}`),
  "labels.borrowed": (d) => `the box ${text(d["labelled_on"])} labelled ${text(d["labelled"])} of ${text(d["frames"])} pictures`,
  "learning.budget": (d) => `At most ${text(d["labels"])} labels a camera are made in this window`,
  "learning.ready": (d) => `Labels and profiles were ready after ${duration(number(d["ready_s"]) ?? 0)}`,
  "object.new": (d) => `${text(d["class"])} came`,
  "object.end": (d) => `${text(d["class"])} went`,
  "window.opened": (_, e) => `Window ${e.window ?? ""} began`,
  "window.closed": (_, e) => `Window ${e.window ?? ""} ended`,
  "window.resumed": (_, e) => `Window ${e.window ?? ""} goes on after a restart`,
  "fleet.job_over": (d) => `the fleet's job ${text(d["job"])} is over: ${text(d["outcome"])}`,
  "fleet.job_submitted": (d) => `${text(d["by"])} submitted the job ${text(d["job"])} (${text(d["program"])}) to the fleet`,
  "fleet.job_withdrawn": (d) => `${text(d["by"])} withdrew the fleet's job ${text(d["job"])}`,
  "exemplars.late": (_, e) =>
    `the pictures of window ${e.window ?? ""} that are kept against forgetting were picked by their labels: looking at them would have taken too long`,
  "window.no_labels": (_, e) => ({ text: `no labelled frames for window ${e.window ?? ""}`, tone: "bad" }),
  "sample.not_closed": (d) => ({ text: `its sample was not closed in time${because(d)}`, tone: "bad" }),
  "window.measured": (d, e) =>
    `window ${e.window ?? ""}: ${percent(number(d["realised"]))} right, the frozen model ${percent(number(d["frozen"]))}${d["download"] == null ? "" : `, the download ${percent(number(d["download"]))}`}`,
  "region.changed": (d) => `looks at ${regionWords(d["region"] as Region | undefined)} from now on`,
  plan: (d) => {
    const why = text(d["cause"]);
    const expected = number(d["objective"]);
    // A user of some cameras hears of a plan, and not of its content.
    if (expected === null) return "A new plan was made";
    return `New plan by ${text(d["policy"])}${why && ` (${why})`}: expects ${percent(expected)} on average`;
  },
  profiled: (d) => `${text(d["configs"])} ways to retrain were estimated`,
  "inference.changed": (d) => {
    const l = d["lambda"] as { frame_rate: number; resolution: number } | undefined;
    return l ? `answers ${l.frame_rate} ${l.frame_rate === 1 ? "frame" : "frames"} a second at ${percent(l.resolution)} size now` : "inference changed";
  },
  "retraining.started": (d) => `retraining began: ${configWords(d)}${together(d["members"])}${ofBoxes(d["boxes"])}`,
  "retraining.stopped": (d) => `retraining ended early${because(d)}`,
  "retraining.failed": (d) => ({ text: `retraining failed${because(d)}`, tone: "bad" }),
  "model.from_sibling": (d) => ({ text: `begins with the student of ${text(d["sibling"]) ? `camera ${text(d["sibling"])}` : "the camera"} that looks most alike`, tone: "good" }),
  "tenant.added": (d) => `tenant ${text(d["tenant"])} was added by ${text(d["by"])}`,
  "tenant.changed": (d) => `tenant ${text(d["tenant"])} was changed by ${text(d["by"])}`,
  "tenant.removed": (d) => `tenant ${text(d["tenant"])} was removed by ${text(d["by"])}`,
  "tenants.forgotten": (d) => `what was learned of ${text(d["tenant"]) ? `tenant ${text(d["tenant"])}` : "tenants"} was forgotten: ${FORGOTTEN[text(d["why"])] ?? text(d["why"])}`,
  "tenants.moved": (d) => `shares of tenants moved${movedShares(d)}`,
  "tenants.settings": (d) => `how tenants share the box was changed by ${text(d["by"])}`,
  "sibling.none": () => "begins with the download: no camera with a student looks alike",
  "group.member_skipped": (d) => `not judged with its group's retraining${text(d["leader"]) ? ` (of ${text(d["leader"])})` : ""}: ${({ changed: "the camera was changed or removed", own_retraining: "a retraining of its own runs" } as Record<string, string>)[text(d["why"])] ?? "it has another student by now"}`,
  "model.promoted": (d) => ({ text: `a better model is in force${scores(d)}${led(d["leader"])}${d["boxes"] ? `, trained${ofBoxes(d["boxes"]).slice(1)}` : ""}`, tone: "good" }),
  "model.rejected": (d) => `the retrained model was not put in force${because(d)}`,
  "model.switched": (d) => `the new model answers; ${text(d["frames_lost"])} frames lost in the switch`,
  "model.rolled_back": (d) => ({
    text: `rolled back to ${version(d)} by ${text(d["by"])}${because(d)}`,
    tone: "bad",
  }),
  "model.pinned": (d) => `${version(d)} was pinned`,
  "model.unpinned": (d) => `${version(d)} was unpinned`,
  "worker.worker_lost": (d) => bad(`worker ${text(d["worker"])} was lost and is started again${because(d)}`),
  "worker.worker_error": (d) => bad(`worker ${text(d["worker"])} reports an error${because(d)}`),
  "worker.messages_lost": (d) => bad(`${many(d["messages"], "message")} of worker ${text(d["worker"])} did not arrive`),
  "worker.respawn": (d) => `worker ${text(d["worker"])} is started anew with another share${because(d)}`,
  "worker.respawned": (d) => `worker ${text(d["worker"])} goes on with its new share`,
  "worker.respawn_failed": (d) => bad(`worker ${text(d["worker"])} could not be started with another share${because(d)}`),
  "worker.share_refused": (d) => bad(`a share for ${text(d["worker"])} was refused${because(d)}`),
  "worker.device_sick": (d) => bad(`The device does not work as it should${because(d)}`),
  "worker.device_recovered": () => ({ text: "The device works again", tone: "good" }),
  "worker.device_restart": (d) => bad(`All workers of the device are started again${because(d)}`),
  "serving.plan": (d) => {
    const why = text(d["cause"]);
    return `New plan for the served models${why && ` (${why})`}: ${percent(number(d["share"]))} of the device`;
  },
  "serving.loaded": (d) => `${text(d["model"])} was loaded${by(d)}`,
  "serving.unloaded": (d) => `${text(d["model"])} was unloaded${by(d)}`,
  "serving.measuring": (d) => `Served models are measured${because(d)}`,
  "serving.version": (d) => `Version ${text(d["version"])} of ${text(d["model"])} is served`,
  "serving.executor_started": (d) => `A process for ${names(d["models"])} was started with ${percent(number(d["share"]))} of the device`,
  "serving.executor_lost": (d) => bad(text(d["message"])),
  "serving.executor_failed": (d) => bad(text(d["message"])),
  "serving.model_refused": (d) => bad(text(d["message"])),
  "serving.model_capped": (d) => bad(text(d["message"])),
  "serving.requests_failed": (d) => bad(`${many(d["requests"], "request")} failed with ${text(d["executor"])}`),
  "serving.listening": (d) => {
    const ports = [["HTTP", d["http_port"]], ["gRPC", d["grpc_port"]]].filter(([, port]) => port != null);
    const open = ports.map(([name, port]) => `${name} on port ${String(port)}`).join(" and ");
    return open === "" ? "Served models have no port" : `Served models are answered by ${open}`;
  },
  "serving.front_lost": (d) => bad(`The front of the served models was lost with ${many(d["requests"], "open request")}, and is started again${because(d)}`),
  "serving.drift": (d) => `${text(d["message"]) || text(d["model"])}; plans reckon with it`,
  "output.up": (d) => ({ text: `${destination(d)} answers again`, tone: "good" }),
  "output.down": (d) => bad(`${destination(d)} is away${because(d)}; messages wait`),
  "output.dead": (d) => bad(`${destination(d)}: ${many(d["messages"], "message")} given up${because(d)}`),
  "output.lost": (d) => bad(`${destination(d)}: ${many(d["messages"], "waiting message")} deleted: ${LOST_OUT[text(d["cause"])] ?? text(d["cause"])}`),
  "output.retried": (d) => `${destination(d)}: a message that was given up is sent again${by(d)}`,
  "output.dropped": (d) => `${destination(d)}: a message that was given up was deleted${by(d)}`,
  "output.command_ignored": (d) => bad(`${many(d["messages"], "command")} by MQTT ignored${because(d)}`),
  retention: deleted,
  "retention.clips": deleted,
  "retention.alarms": deleted,
  "retention.counts": deleted,
  "events.lost": (d) => ({ text: `This page was too slow: ${text(d["events"])} events are missing here`, tone: "bad" }),
};

const DELETED: Record<string, [one: string, several: string]> = {
  events: ["journal entry", "journal entries"],
  windows: ["window", "windows"],
  picture_sets: ["window's pictures", "windows' pictures"],
  versions: ["model's record", "models' records"],
  blobs: ["model file", "model files"],
  clips: ["clip", "clips"],
  alarms: ["alarm", "alarms"],
  objects: ["object", "objects"],
  object_pictures: ["picture", "pictures"],
};

/** What a report of retention counts: "3 windows, 2 model files (1.2 MB)". */
function deleted(data: Data): EntryText {
  const parts = Object.entries(DELETED).flatMap(([key, [one, several]]) => {
    const n = number(data[key]) ?? 0;
    if (n === 0) return [];
    return [counted(n, one, several)];
  });
  const freed = number(data["bytes_freed"]) ?? 0;
  const failures = names(data["failures"]);
  const words = `Retention deleted ${parts.join(", ") || "nothing"}${freed > 0 ? ` (${bytes(freed)})` : ""}`;
  return failures ? bad(`${words}; not deleted: ${failures}`) : { text: words, tone: "plain" };
}

/** One entry in words, without its camera's name. `named` says what people call a camera that the words speak of. */
export function entryText(entry: JournalEntry, named: (camera: string) => string = (id) => id): EntryText {
  const known = KNOWN[entry.kind];
  if (known) {
    const about = text(entry.data["cause_camera"]);
    const data = about ? { ...entry.data, cause: `${named(about)}: ${text(entry.data["cause"])}` } : entry.data;
    const found = known(data, entry);
    return typeof found === "string" ? { text: found, tone: "plain" } : found;
  }
  return { text: `${entry.kind}${because(entry.data)}`, tone: "plain" };
}

export type Region = [number, number, number, number];

/** The part of the picture that a student looks at, in words. */
export function regionWords(region: Region | undefined): string {
  if (region === undefined) return "another part of the picture";
  const [left, top, right, bottom] = region;
  if (left <= 0 && top <= 0 && right >= 1 && bottom >= 1) return "the whole picture";
  const part = Math.round(100 * (right - left) * (bottom - top));
  const whole = (v: number) => Math.round(100 * v);
  return `${part} % of the picture (${whole(left)}-${whole(right)} % from the left, ${whole(top)}-${whole(bottom)} % from the top)`;
}

/** The part of the picture that a camera's student looks at, how often, and in which shape, in words. */
export function lookWords(camera: Camera): string {
  const l = camera.state.inference.lambda;
  if (l === null) return "–";
  const shape = l.shape === "model" ? ", in the shape that the model was published with" : "";
  const rate = Number(l.frame_rate.toFixed(1));
  return `${regionWords(l.region)}, ${rate === 1 ? "once" : `${rate} times`} a second${shape}`;
}

/** Losses of cameras in words, for one and for many. */
const CAMERA_LOSSES: Record<string, [string, string]> = {
  frames_damaged: ["damaged frame", "damaged frames"],
  frames_replaced: ["frame passed over for a newer one", "frames passed over for newer ones"],
  packets_dropped: ["packet skipped", "packets skipped"],
  stalls: ["stall", "stalls"],
  reconnects: ["new connection", "new connections"],
  frames_without_answer: ["frame without an answer", "frames without an answer"],
  samples_lost: ["sampled frame not kept", "sampled frames not kept"],
  frames_lost_in_swaps: ["frame lost while a new model took over", "frames lost while a new model took over"],
  answers_not_tracked: ["answer whose objects were not followed", "answers whose objects were not followed"],
  answers_not_fed: ["answer that no application got", "answers that no application got"],
  clip_packets_lost: ["packet not kept for clips", "packets not kept for clips"],
};

/** "260 frames without an answer, 2 packets skipped"; "nothing". */
export function lossWords(losses: Readonly<Record<string, number>>): string {
  const some = Object.entries(losses).filter(([, n]) => n > 0);
  const words = some.map(([name, n]) => counted(n, ...(CAMERA_LOSSES[name] ?? ([name, name] as const))));
  return words.join(", ") || "nothing";
}
