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
  answers_per_s: number;
  inference_ms: number;
  lambda: { frame_rate: number; resolution: number } | null;
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
}

export interface Health {
  ready: boolean;
  reasons: Complaint[];
  version: string;
}

export interface WindowRow {
  camera: string;
  realised: { value: number } | null;
  frozen: { value: number } | null;
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
  ) {
    super(message);
  }
}

const PREFIX = "/api/v1";
const TIMEOUT_MS = 8000;

/** Ask REST. Throws ApiError. */
export async function ask<T>(path: string, method = "GET", body?: unknown): Promise<T> {
  const init: RequestInit = { method, signal: AbortSignal.timeout(TIMEOUT_MS) };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { "content-type": "application/json" };
  }
  let response: Response;
  let value: unknown;
  try {
    response = await fetch(path.startsWith("/readyz") ? path : PREFIX + path, init);
    value = response.status === 204 ? null : await response.json();
  } catch {
    throw new ApiError(0, "the appliance does not answer");
  }
  if (!response.ok && !path.startsWith("/readyz")) {
    const error = (value as { error?: { message?: string; problems?: Problem[] } }).error;
    throw new ApiError(response.status, error?.message ?? `answer ${response.status}`, error?.problems ?? []);
  }
  return value as T;
}

/** What to tell people about something caught. */
export function words(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

export function streamUrl(): string {
  return `${PREFIX}/events/stream`;
}

export function liveUrl(): string {
  return `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${PREFIX}/live`;
}
