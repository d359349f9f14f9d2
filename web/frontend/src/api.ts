/** What REST answers, as far as the page reads it, and how it is asked. Times are UTC epoch seconds. */

export type CameraStateName = "connecting" | "live" | "stalled" | "reconnecting" | "refused" | "stopped";

export interface Camera {
  id: string;
  name: string;
  state: CameraStateName;
  fault: string | null;
  message: string;
  fps: number;
  delay_s: number;
  width: number;
  height: number;
  retry_in_s: number;
  model_version: string;
  frozen_version: string;
  accuracy: number | null;
  frozen_accuracy: number | null;
  /** The published detector that the student began as, left alone; null: there is none, or it was not measured yet. */
  download_accuracy: number | null;
  student: string;
  answers_per_s: number;
  inference_ms: number;
  lambda: { frame_rate: number; resolution: number; region: [number, number, number, number]; shape: string } | null;
  recorder: string;
  losses: Record<string, number>;
}

export interface Job {
  job: string;
  camera: string;
  config: string;
  share: number;
  predicted_accuracy: number | null;
  fraction: number;
  held_out: number | null;
  device_seconds: number;
}

export interface Complaint {
  code: string;
  message: string;
  camera?: string | null;
  utc_s?: number;
}

export interface Overview {
  site: string;
  utc_s: number;
  window: { number: number; start_utc_s: number; end_utc_s: number; length_s: number; phase: string };
  policy: string;
  device: { kind: string; device: string; enforced: string; units: number };
  shares: Record<string, { inference: number; retraining: number; config: string | null }>;
  golden_share: number;
  profiling_share: number;
  control_share: number;
  cameras: Camera[];
  jobs: Job[];
  complaints: Complaint[];
  losses: Record<string, unknown>;
  /** Null where nothing is served. */
  serving?: { front_share: number; share?: { reserved: number } } | null;
}

export interface Health {
  ready: boolean;
  reasons: Complaint[];
  version: string;
}

export type Role = "viewer" | "operator" | "admin";

/** Who asks, and what he may. */
export interface Me {
  name: string;
  role: Role;
  /** Ids of the cameras that he may see; null: all. */
  cameras: string[] | null;
  /** "open": this appliance asks nobody to log in. */
  kind: "session" | "token" | "open";
  csrf: string | null;
  expires_utc_s: number | null;
  must_change: boolean;
}

export interface Alarm {
  id: number | string;
  rule: string;
  kind: string;
  severity: "info" | "warning" | "critical";
  camera: string | null;
  phase: "new" | "update" | "end";
  began_utc_s: number;
  ended_utc_s: number | null;
  message: string;
  value: number | null;
  object: number | string | null;
  acknowledged_by: string | null;
  acknowledged_utc_s: number | null;
  picture: boolean;
}

export interface WindowRow {
  camera: string;
  realised: { value: number } | null;
  frozen: { value: number } | null;
  details?: { download?: { value: number } };
}

export interface WindowRecord {
  id: number;
  start_utc_s: number;
  length_s: number;
  policy: string;
  cameras: WindowRow[];
}

export type RetrainingValues = Record<string, unknown>;

export interface Retraining {
  current: RetrainingValues;
  next: RetrainingValues;
  next_boundary_utc_s: number;
}

export interface LearningBudget {
  labels: number;
  trials: number;
  retraining_s: number;
  ready_s: number;
  known: boolean;
  late: boolean;
}

/** What the box can learn (GET /retraining/learning). */
export interface Learning {
  window_s: number;
  cameras: number;
  budget: LearningBudget;
  golden_share: number;
  choice: { window_s: number; budget: LearningBudget; reason: string };
  bias: number;
  mean_error: number;
  camera_windows: number;
  late_labels_used: number;
  unprofiled_retrainings: number;
}

export interface Model {
  id: string;
  camera: string;
  parent: string | null;
  window: number | null;
  config: string | null;
  scores: Record<string, number>;
  state: string;
  decided_by: string;
  reason: string;
  pinned: boolean;
  created_utc_s: number;
  blob_kept: boolean;
}

export interface JournalEntry {
  id: number | string | null;
  utc_s?: number;
  kind: string;
  camera: string | null;
  window: number | null;
  data: Record<string, unknown>;
}

export interface Problem {
  path: string;
  given: unknown;
  allowed: string;
}

/** An answer that says no, or no answer at all (`status` 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly problems: Problem[] = [],
    readonly code = "",
    /** Seconds to wait before the next try, where the server says so. */
    readonly retry_after_s: number | null = null,
  ) {
    super(message);
  }
}

const PREFIX = "/api/v1";
const TIMEOUT_MS = 8000;
/** Said to the window when the server does not know (any more) who asks. */
export const LOGGED_OUT = "magpie-logged-out";
const SAFE = new Set(["GET", "HEAD"]);
/** Where a 401 means "wrong password" and not "log in first". */
const OPEN = /^\/(login|setup|me\/password)(\/|$)/;

/** Asks the appliance in the name of who is logged in. */
class Api {
  private csrf: string | null = null;

  /** The token that belongs to the session's cookie; null where there is none. */
  setCsrf(token: string | null): void {
    this.csrf = token;
  }

  /** Ask REST; throws ApiError. A 401 is also told to the window (LOGGED_OUT). */
  readonly ask = async <T>(path: string, method = "GET", body?: unknown, timeout_ms = TIMEOUT_MS): Promise<T> => {
    const headers: Record<string, string> = {};
    const init: RequestInit = { method, headers, signal: AbortSignal.timeout(timeout_ms) };
    if (body !== undefined) {
      init.body = JSON.stringify(body);
      headers["content-type"] = "application/json";
    }
    if (this.csrf !== null && !SAFE.has(method)) headers["x-csrf-token"] = this.csrf;
    let response: Response;
    let value: unknown;
    try {
      response = await fetch(PREFIX + path, init);
      value = response.status === 204 ? null : await response.json();
    } catch {
      throw new ApiError(0, "the appliance does not answer");
    }
    if (response.ok) return value as T;
    if (response.status === 401 && !OPEN.test(path)) dispatchEvent(new Event(LOGGED_OUT));
    const error = (value as { error?: { code?: string; message?: string; problems?: Problem[] } } | null)?.error;
    const wait = Number(response.headers.get("retry-after") ?? NaN);
    throw new ApiError(
      response.status,
      error?.message ?? `answer ${response.status}`,
      error?.problems ?? [],
      error?.code ?? "",
      Number.isFinite(wait) ? wait : null,
    );
  };
}

export const api = new Api();
export const ask = api.ask;

/** What to tell people about something caught. */
export function words(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The objections of the server that stand at fields; empty for any other error. */
export function problemsOf(error: unknown): Problem[] {
  return error instanceof ApiError ? error.problems : [];
}

export function streamUrl(): string {
  return `${PREFIX}/events/stream`;
}

/** The address of a picture under /api/v1. */
export function pictureUrl(path: string): string {
  return PREFIX + path;
}

export function liveUrl(): string {
  return `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${PREFIX}/live`;
}
