/** The accuracy of a camera over its windows, and whether the scene or the model changed. */

import type { Camera, WindowRecord } from "../api";
import { percent } from "../format";

export interface History {
  /** Numbers of the windows in which something was measured, oldest first. */
  x: number[];
  /** Accuracy of the answers really given, 0-1. */
  realised: (number | null)[];
  /** Accuracy of the first model, had it stayed, 0-1. */
  frozen: (number | null)[];
  /** Accuracy of the download that it began as, at its best past least score, looking where the student in force does, 0-1. */
  download: (number | null)[];
  /** The same, looking at the whole picture. */
  whole: (number | null)[];
}

/** The newest window's figures. */
export interface Measured {
  realised: number | null;
  frozen: number | null;
  download: number | null;
}

/** The camera's accuracy per window; `windows` come newest first. */
export function history(windows: WindowRecord[], camera: string): History {
  const out: History = { x: [], realised: [], frozen: [], download: [], whole: [] };
  for (const window of [...windows].reverse()) {
    const row = window.cameras.find((r) => r.camera === camera);
    if (!row || (row.realised === null && row.frozen === null)) continue;
    out.x.push(window.id);
    out.realised.push(row.realised?.value ?? null);
    out.frozen.push(row.frozen?.value ?? null);
    out.download.push(row.details.download?.value ?? null);
    out.whole.push(row.details.download_whole?.value ?? null);
  }
  return out;
}

/** The newest window in which both were measured: figures of different windows are not compared. */
export function measured(camera: Camera, { realised, frozen, download }: History): Measured {
  for (let n = realised.length - 1; n >= 0; n -= 1) {
    const [mine, theirs] = [realised[n] ?? null, frozen[n] ?? null];
    if (mine !== null && theirs !== null) return { realised: mine, frozen: theirs, download: download[n] ?? null };
  }
  return { realised: camera.state.accuracy.realised, frozen: null, download: null };
}

/** The accuracy of what it began as (a download, else its first model), and the gain over that. */
export function gained({ realised, frozen, download }: Measured): { left: number | null; gain: number | null } {
  const left = download ?? frozen;
  return { left, gain: realised === null || left === null ? null : realised - left };
}

/** A fall of so much, against the windows before, is worth a word. */
const FALL = 0.1;
const BEFORE = 4;

function mean(values: number[]): number {
  return values.reduce((sum, v) => sum + v, 0) / values.length;
}

export interface Drift {
  text: string;
  /** The camera's own answers are worse than they were: the operator should look. */
  worse: boolean;
}

/**
 * The change in words; null: nothing changed. The frozen model never changes: when it is suddenly less right, the scene
 * changed. When only the model in force fell, it answers worse than it did.
 */
export function drift({ realised, frozen }: History): Drift | null {
  const fall = (values: (number | null)[]): [number, number] | null => {
    const known = values.filter((v) => v !== null);
    const last = known.at(-1);
    const before = known.slice(-1 - BEFORE, -1);
    if (last === undefined || before.length < 2 || values.at(-1) === null) return null;
    const usual = mean(before);
    return usual - last >= FALL ? [usual, last] : null;
  };
  const scene = fall(frozen);
  const mine = fall(realised);
  if (mine !== null && scene !== null) {
    const words = `The scene changed: accuracy fell from ${percent(mine[0])} to ${percent(mine[1])}, the first model's too.`;
    return { text: words, worse: true };
  }
  if (mine !== null) {
    return { text: `Accuracy fell from ${percent(mine[0])} to ${percent(mine[1])}, though not the first model's.`, worse: true };
  }
  if (scene === null) return null;
  const words = `The scene changed: the first model fell from ${percent(scene[0])} to ${percent(scene[1])}. This one holds.`;
  return { text: words, worse: false };
}
