/** All cameras at once: are they alive, and can one trust what they report? */

import { useEffect, useState } from "preact/hooks";

import type { Alarm, Camera, Me, WindowRecord } from "../api";
import { percent, points } from "../format";
import type { Drift } from "../parts/accuracy";
import { drift, gained, history, measured } from "../parts/accuracy";
import { AlarmsLink } from "../parts/alarms_link";
import { Badge } from "../parts/badge";
import { Changed } from "../parts/changed";
import { Choice } from "../parts/choice";
import { Events } from "../parts/events";
import { LivePicture, stateOf } from "../parts/live_picture";
import { SharesNow } from "../parts/shares";
import { Sparkline } from "../parts/sparkline";
import { Empty } from "../parts/states";
import { href } from "../router";
import { may, seesAll } from "../session";
import type { Known } from "../store";
import type { PageProps } from "./page";

type Sort = "configured" | "state" | "name" | "accuracy";
type Filter = "all" | "attention" | "live" | "lost";

const URGENCY = { bad: 0, wait: 1, off: 2, info: 3, good: 4 } as const;

interface Row {
  camera: Camera;
  index: number;
  changed: Drift | null;
  alarms: Alarm[];
}

function needsAttention({ camera, changed, alarms }: Row): boolean {
  return camera.state.state !== "live" || changed?.worse === true || alarms.length > 0;
}

const FILTERS: Record<Filter, [string, (row: Row) => boolean]> = {
  all: ["All", () => true],
  attention: ["Need attention", needsAttention],
  live: ["Live", (row) => row.camera.state.state === "live"],
  lost: ["Not live", (row) => row.camera.state.state !== "live"],
};

const ORDERS: Record<Sort, [string, (a: Row, b: Row) => number]> = {
  configured: ["As configured", (a, b) => a.index - b.index],
  state: [
    "Worst state first",
    (a, b) =>
      URGENCY[stateOf(a.camera)[1]] - URGENCY[stateOf(b.camera)[1]] ||
      b.alarms.length - a.alarms.length ||
      Number(b.changed?.worse ?? false) - Number(a.changed?.worse ?? false) ||
      a.index - b.index,
  ],
  name: ["Name", (a, b) => a.camera.name.localeCompare(b.camera.name)],
  accuracy: ["Least accurate first", (a, b) => (a.camera.state.accuracy.realised ?? 2) - (b.camera.state.accuracy.realised ?? 2) || a.index - b.index],
};

/** A choice that this browser remembers. */
function useKept<T extends string>(key: string, choices: readonly T[], initial: T): [T, (value: T) => void] {
  const [value, setValue] = useState<T>(() => {
    try {
      const kept = localStorage.getItem(key) as T | null;
      return kept !== null && choices.includes(kept) ? kept : initial;
    } catch {
      return initial;
    }
  });
  useEffect(() => {
    try {
      localStorage.setItem(key, value);
    } catch {
      return; // a browser may forbid storage; the choice lasts until the page is left
    }
  }, [key, value]);
  return [value, setValue];
}

function rowsOf(cameras: Camera[], { windows, alarms }: Known): Row[] {
  return cameras.map((camera, index) => ({
    camera,
    index,
    changed: drift(history(windows, camera.id)),
    alarms: (alarms ?? []).filter((a) => a.camera === camera.id),
  }));
}

export function WallPage({ known, me }: PageProps) {
  const [boxes, setBoxes] = useKept("magpie.boxes", ["yes", "no"], "yes");
  const [sort, setSort] = useKept<Sort>("magpie.wall.sort", Object.keys(ORDERS) as Sort[], "configured");
  const [filter, setFilter] = useState<Filter>("all");
  const { overview } = known;
  if (overview === null) return null;

  const rows = rowsOf(overview.cameras, known);
  const shown = rows.filter(FILTERS[filter][1]).sort(ORDERS[sort][1]);
  return (
    <>
      <div class="page-head">
        <h1>Cameras</h1>
        {rows.length > 0 && <LiveCount rows={rows} />}
        {rows.length > 0 && (
          <div class="tools">
            <Choice
              label="Show"
              value={filter}
              options={(Object.keys(FILTERS) as Filter[]).map((id) => [id, `${FILTERS[id][0]} (${rows.filter(FILTERS[id][1]).length})`])}
              onChange={setFilter}
            />
            <Choice
              label="Sort by"
              value={sort}
              options={(Object.keys(ORDERS) as Sort[]).map((id) => [id, ORDERS[id][0]])}
              onChange={setSort}
            />
            <label class="check">
              <input type="checkbox" checked={boxes === "yes"} onChange={(e) => setBoxes(e.currentTarget.checked ? "yes" : "no")} />
              Show boxes
            </label>
          </div>
        )}
      </div>
      {rows.length === 0 ? (
        <NoCamera me={me} />
      ) : shown.length === 0 ? (
        <Empty title={`None of the ${rows.length} cameras is “${FILTERS[filter][0]}”`} action={<button onClick={() => setFilter("all")}>Show all</button>} />
      ) : (
        <ul class={shown.length > 4 ? "wall many" : shown.length === 4 ? "wall four" : shown.length === 1 ? "wall one" : "wall"}>
          {shown.map((row) => (
            <Tile key={row.camera.id} row={row} windows={known.windows} boxes={boxes === "yes"} />
          ))}
        </ul>
      )}
      <div class="wall-below">
        <Events events={known.events} cameras={overview.cameras} />
        <SharesNow overview={overview} />
      </div>
    </>
  );
}

/** How many cameras are live, and how many need an operator. */
function LiveCount({ rows }: { rows: Row[] }) {
  const live = rows.filter((r) => r.camera.state.state === "live").length;
  const attention = rows.filter(needsAttention).length;
  return (
    <p class="quiet" role="status">
      {live} of {rows.length} live
      {attention > 0 && `, ${attention} ${attention === 1 ? "needs" : "need"} attention`}
    </p>
  );
}

function NoCamera({ me }: { me: Me }) {
  const all = me.cameras === null;
  return (
    <Empty
      title={all ? "No camera yet" : "No camera for you"}
      action={
        may(me, "operator") && seesAll(me) ? (
          <a class="button primary" href={href("settings", "cameras")}>
            Add a camera
          </a>
        ) : undefined
      }
    >
      {all ? (
        <p>
          Add one with its RTSP address: the connection is tested and a picture shown before anything is kept. From the next
          retraining window on, its model learns what it sees.
        </p>
      ) : (
        <p>Your account is limited to cameras that are not there. An administrator can change that.</p>
      )}
    </Empty>
  );
}

function Tile({ row, windows, boxes }: { row: Row; windows: WindowRecord[]; boxes: boolean }) {
  const { camera, changed, alarms } = row;
  const [label, tone] = stateOf(camera);
  const past = history(windows, camera.id);
  const figures = measured(camera, past);
  const { realised, frozen, download } = figures;
  const { left, gain } = gained(figures);
  const { state, stream, inference } = camera.state;
  const isLive = state === "live";
  return (
    <li class="card tile" aria-labelledby={`tile-${camera.id}`}>
      <header>
        <h2 id={`tile-${camera.id}`}>
          <a href={href("camera", camera.id)}>{camera.name}</a>
        </h2>
        <AlarmsLink camera={camera.id} alarms={alarms} />
        <Badge tone={tone}>{label}</Badge>
      </header>
      <LivePicture camera={camera} boxes={boxes} />
      <dl class="facts">
        <Fact name="Camera" value={isLive ? `${stream.fps.toFixed(1)} fps` : "–"} />
        <Fact name="Answers" value={isLive ? `${inference.answers_per_s.toFixed(1)} / s` : "–"} />
        <Fact name="Delay" value={isLive ? `${stream.delay_s.toFixed(2)} s` : "–"} />
        {past.x.length > 1 && (
          <div class="trend">
            <dt class="hidden">Trend</dt>
            <dd>
              <Sparkline
                data={past}
                label={`Accuracy over ${past.x.length} windows, now ${percent(realised)}; the first model ${percent(frozen)}`}
              />
            </dd>
          </div>
        )}
      </dl>
      <div class="accuracy">
        {realised === null ? (
          <p class="quiet">Accuracy comes with the first window.</p>
        ) : (
          <>
            <p>
              <strong>{percent(realised)}</strong> <span class="quiet">right</span>
            </p>
            {gain !== null && (
              <p class={`gain ${gain >= 0 ? "up" : "down"}`} title={`${download === null ? "The first model, had it never learned" : "The download, left alone"}: ${percent(left, 1)}`}>
                {points(gain)} <span class="quiet">{download === null ? "by retraining" : "over the download"}</span>
              </p>
            )}
          </>
        )}
      </div>
      {changed && <Changed drift={changed} />}
    </li>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}
