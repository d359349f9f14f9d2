/** How REST is asked, and what of its answers (answers.ts) the page calls by shorter names. */

import type {
  AlarmAnswer,
  BoxHealth,
  CameraAnswer,
  LearningAnswer,
  Me,
  OverviewCamera,
  ProblemAnswer,
  RetrainingAnswer,
  StateOfCamera,
  VersionAnswer,
  WindowAnswer,
} from "./answers";

export type { JournalEntry, Me, Overview, Reason } from "./answers";

export type Alarm = AlarmAnswer;
export type Camera = OverviewCamera;
export type CameraRecord = CameraAnswer;
export type CameraStateName = StateOfCamera["state"];
export type Health = BoxHealth;
export type Learning = LearningAnswer;
export type Model = VersionAnswer;
export type Problem = ProblemAnswer;
export type Retraining = RetrainingAnswer;
export type Role = Me["role"];
export type WindowRecord = WindowAnswer;

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

export const PREFIX = "/api/v1";
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

  /** Ask REST; throws ApiError. A 401 is also an event of the window (LOGGED_OUT). */
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

/** The words for people about something caught. */
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
