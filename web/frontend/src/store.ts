/** The page's knowledge of the appliance, kept fresh. */

import { useEffect, useState } from "preact/hooks";

import { JOURNAL_KINDS } from "./answers";
import type { Alarm, Health, JournalEntry, Overview, Retraining, WindowRecord } from "./api";
import { ApiError, ask, streamUrl } from "./api";

const EVERY_MS = 1000;
const SOON_MS = 700;
const HEALTH_EVERY = 4;
const ALARMS_EVERY = 10;
const EVENTS = 60;
const WINDOWS = 60;

export interface Known {
  overview: Overview | null;
  health: Health | null;
  windows: WindowRecord[];
  retraining: Retraining | null;
  events: JournalEntry[];
  /** Alarms that have not ended; null where none are to be had. */
  alarms: Alarm[] | null;
  /** Browser time (ms) since which the appliance does not answer; null while it does. */
  silentSince: number | null;
  /** Appliance time minus browser time, seconds. */
  offset_s: number;
}

/** Objects come and go by the minute and have a list of their own; that an alarm goes on is no news. */
function shownHere(entry: JournalEntry): boolean {
  return !JOURNAL_KINDS.object.has(entry.kind) && entry.kind !== "alarm.update";
}

/** Whether an entry is about one of the subjects. */
export function of(entry: JournalEntry, ...subjects: (keyof typeof JOURNAL_KINDS)[]): boolean {
  return subjects.some((subject) => JOURNAL_KINDS[subject].has(entry.kind));
}

const NOTHING: Known = {
  overview: null,
  health: null,
  windows: [],
  retraining: null,
  events: [],
  alarms: null,
  silentSince: null,
  offset_s: 0,
};

/** Takes over what became known. */
type Put = (part: Partial<Known> | ((before: Known) => Partial<Known>)) => void;

function quietly(work: Promise<void>): void {
  work.catch(() => undefined); // the poll of the overview tells when the appliance does not answer
}

async function askHealth(put: Put): Promise<void> {
  put({ health: await ask<Health>("/health") });
}

/** Windows and retrainings. */
async function askRecords(put: Put): Promise<void> {
  quietly(ask<Retraining>("/retraining").then((retraining) => put({ retraining })));
  put({ windows: await ask<WindowRecord[]>(`/windows?limit=${WINDOWS}`) });
}

async function askAlarms(put: Put): Promise<void> {
  try {
    put({ alarms: await ask<Alarm[]>("/alarms?active=true&limit=100") });
  } catch (error) {
    if (error instanceof ApiError && (error.status === 404 || error.status === 403)) put({ alarms: null });
    else throw error;
  }
}

async function askHistory(put: Put): Promise<void> {
  const found = await ask<JournalEntry[]>(`/events?limit=${3 * EVENTS}`);
  put({ events: found.filter(shownHere).slice(0, EVENTS) });
}

/** Events come in bursts and just before their records are written: `work` is done once, a moment after the last. */
function afterBurst(work: () => Promise<void>): { soon: () => void; cancel: () => void } {
  let timer = 0;
  const soon = (): void => {
    clearTimeout(timer);
    timer = window.setTimeout(() => quietly(work()), SOON_MS);
  };
  return { soon, cancel: () => clearTimeout(timer) };
}

/** The stream of events. After some of them records or alarms are asked for anew. */
function eventStream(put: Put): { open: () => void; close: () => void } {
  const records = afterBurst(() => askRecords(put));
  const alarms = afterBurst(() => askAlarms(put));
  let stream: EventSource | null = null;
  const open = (): void => {
    stream?.close();
    stream = new EventSource(streamUrl());
    stream.onopen = () => quietly(askHistory(put));
    stream.onmessage = (message: MessageEvent<string>) => {
      const entry = JSON.parse(message.data) as JournalEntry;
      if (shownHere(entry)) put((before) => ({ events: [entry, ...before.events].slice(0, EVENTS) }));
      if (of(entry, "window", "model", "retraining")) records.soon();
      if (of(entry, "alarm")) alarms.soon();
    };
  };
  const close = (): void => {
    records.cancel();
    alarms.cancel();
    stream?.close();
  };
  return { open, close };
}

/** Keeps what is known fresh until the function that it returns is called. */
function follow(setKnown: (change: (before: Known) => Known) => void): () => void {
  let alive = true;
  let timer = 0;
  let round = 0;
  let wasSilent = true;
  const put: Put = (part) => {
    if (alive) setKnown((before) => ({ ...before, ...(typeof part === "function" ? part(before) : part) }));
  };
  const stream = eventStream(put);

  const poll = async (): Promise<void> => {
    const began = Date.now();
    try {
      const overview = await ask<Overview>("/overview");
      if (!alive) return;
      const now = (began + Date.now()) / 2000;
      put({ overview, offset_s: overview.utc_s - now, silentSince: null });
      if (wasSilent || round % HEALTH_EVERY === 0) quietly(askHealth(put));
      if (wasSilent || round % ALARMS_EVERY === 0) quietly(askAlarms(put));
      if (wasSilent) {
        quietly(askRecords(put));
        stream.open();
      }
      wasSilent = false;
      round += 1;
    } catch {
      wasSilent = true;
      put((before) => ({ silentSince: before.silentSince ?? Date.now() }));
    }
    if (alive) timer = window.setTimeout(() => void poll(), EVERY_MS);
  };

  void poll();
  return () => {
    alive = false;
    clearTimeout(timer);
    stream.close();
  };
}

/** Everything that several pages show, kept fresh while a user is logged in. */
export function useAppliance(): Known {
  const [known, setKnown] = useState<Known>(NOTHING);
  useEffect(() => follow(setKnown), []);
  return known;
}

/** The time of now at the appliance, UTC seconds, updated once a second. */
export function useNow(offset_s: number): number {
  const [now, setNow] = useState(Date.now() / 1000);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now() / 1000), 1000);
    return () => clearInterval(timer);
  }, []);
  return now + offset_s;
}

export type Theme = "system" | "light" | "dark";

/** The chosen theme, remembered in this browser. */
export function useTheme(): [Theme, (theme: Theme) => void] {
  const [theme, setTheme] = useState<Theme>(() => {
    try {
      const kept = localStorage.getItem("magpie.theme");
      return kept === "light" || kept === "dark" ? kept : "system";
    } catch {
      return "system"; // a browser may forbid storage; then the choice lasts until the page is left
    }
  });
  useEffect(() => {
    const system = matchMedia("(prefers-color-scheme: dark)");
    const put = (): void => {
      document.documentElement.dataset["theme"] = theme === "system" ? (system.matches ? "dark" : "light") : theme;
      dispatchEvent(new Event("magpie-theme"));
    };
    put();
    system.addEventListener("change", put);
    return () => system.removeEventListener("change", put);
  }, [theme]);
  useEffect(() => {
    try {
      localStorage.setItem("magpie.theme", theme);
    } catch {
      return;
    }
  }, [theme]);
  return [theme, setTheme];
}
