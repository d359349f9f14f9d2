/** The page's knowledge of the appliance, kept fresh. */

import { useEffect, useRef, useState } from "preact/hooks";

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

/** Everything that several pages show, kept fresh while somebody is logged in. */
export function useAppliance(): Known {
  const [known, setKnown] = useState<Known>(NOTHING);
  const alive = useRef(true);

  const put = (part: Partial<Known>): void => {
    if (alive.current) setKnown((before) => ({ ...before, ...part }));
  };

  useEffect(() => {
    alive.current = true;
    let timer = 0;
    let later = 0;
    let laterAlarms = 0;
    let round = 0;
    let wasSilent = true;
    let stream: EventSource | null = null;

    const health = async (): Promise<void> => put({ health: await ask<Health>("/health") });

    const slower = async (): Promise<void> => {
      quietly(ask<Retraining>("/retraining").then((retraining) => put({ retraining })));
      put({ windows: await ask<WindowRecord[]>(`/windows?limit=${WINDOWS}`) });
    };

    const alarms = async (): Promise<void> => {
      try {
        put({ alarms: await ask<Alarm[]>("/alarms?active=true&limit=100") });
      } catch (error) {
        if (error instanceof ApiError && (error.status === 404 || error.status === 403)) put({ alarms: null });
        else throw error;
      }
    };

    const history = async (): Promise<void> => {
      const found = await ask<JournalEntry[]>(`/events?limit=${3 * EVENTS}`);
      put({ events: found.filter(shownHere).slice(0, EVENTS) });
    };

    const quietly = (work: Promise<void>): void => {
      work.catch(() => undefined); // the poll of the overview tells when the appliance does not answer
    };

    /** Events come in bursts and just before their records are written: ask once, a moment later. */
    const soon = (): void => {
      clearTimeout(later);
      later = window.setTimeout(() => quietly(slower()), SOON_MS);
    };

    const soonAlarms = (): void => {
      clearTimeout(laterAlarms);
      laterAlarms = window.setTimeout(() => quietly(alarms()), SOON_MS);
    };

    const listen = (): void => {
      stream?.close();
      stream = new EventSource(streamUrl());
      stream.onopen = () => quietly(history());
      stream.onmessage = (message: MessageEvent<string>) => {
        const entry = JSON.parse(message.data) as JournalEntry;
        if (shownHere(entry)) setKnown((before) => ({ ...before, events: [entry, ...before.events].slice(0, EVENTS) }));
        if (of(entry, "window", "model", "retraining")) soon();
        if (of(entry, "alarm")) soonAlarms();
      };
    };

    const poll = async (): Promise<void> => {
      const began = Date.now();
      try {
        const overview = await ask<Overview>("/overview");
        const now = (began + Date.now()) / 2000;
        put({ overview, offset_s: overview.utc_s - now, silentSince: null });
        if (wasSilent || round % HEALTH_EVERY === 0) quietly(health());
        if (wasSilent || round % ALARMS_EVERY === 0) quietly(alarms());
        if (wasSilent) {
          quietly(slower());
          listen();
        }
        wasSilent = false;
        round += 1;
      } catch {
        wasSilent = true;
        if (alive.current) setKnown((before) => ({ ...before, silentSince: before.silentSince ?? Date.now() }));
      }
      if (alive.current) timer = window.setTimeout(() => void poll(), EVERY_MS);
    };

    void poll();
    return () => {
      alive.current = false;
      clearTimeout(timer);
      clearTimeout(later);
      clearTimeout(laterAlarms);
      stream?.close();
    };
  }, []);

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
