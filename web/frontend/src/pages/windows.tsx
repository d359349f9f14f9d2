/** Retraining windows: how right the cameras were with retraining and without, window by window, and one window in full. */

import type { Camera, JournalEntry, WindowRecord } from "../api";
import { moment, percent } from "../format";
import { Chart } from "../parts/chart";
import { useAsked } from "../parts/asking";
import { Empty, ErrorBox, Loading } from "../parts/states";
import { Table } from "../parts/table";
import { Gain, outcomeBadge } from "../parts/window_outcome";
import { go, href, useRoute } from "../router";
import { of } from "../store";
import type { PageProps } from "./page";
import { WindowDetail } from "./windows_detail";
import { WindowLearning } from "./windows_learning";
import "../styles/windows.css";

const PAGE = 40;

interface Measured {
  realised: number | null;
  frozen: number | null;
  cameras: number;
}

/** The mean over the cameras in which both were measured, or of one camera. */
function measured(window: WindowRecord, camera: string): Measured {
  const rows = window.cameras.filter((r) => (camera === "" || r.camera === camera) && r.realised !== null);
  const both = rows.filter((r) => r.frozen !== null);
  const of = both.length > 0 ? both : rows;
  const mean = (values: number[]): number | null => (values.length === 0 ? null : values.reduce((a, b) => a + b, 0) / values.length);
  return {
    realised: mean(of.map((r) => r.realised?.value ?? 0)),
    frozen: mean(both.map((r) => r.frozen?.value ?? 0)),
    cameras: of.length,
  };
}

/** Whether what the page shows changes with it. */
function changes(entry: JournalEntry): boolean {
  return entry.kind === "plan" || entry.kind === "profiled" || of(entry, "window", "model", "retraining");
}

export function WindowsPage(props: PageProps) {
  const { known } = props;
  const { rest, query } = useRoute();
  const changed = known.events.find(changes)?.id ?? null;
  const number = rest[0] === undefined ? null : Number(rest[0]);
  return (
    <>
      <div class="page-head">
        <h1>Retraining windows</h1>
        {number === null && (
          <p class="quiet">
            In each window the cameras' models are retrained on what the golden model labelled in the one before. The frozen model is the
            first one: what the cameras would answer had they never learned.{" "}
            <a href={href("capacity")}>What would another camera, window or device bring?</a>
          </p>
        )}
      </div>
      {number === null ? (
        <>
          <Windows {...props} changed={changed} before={whole(query.get("before"))} camera={query.get("camera") ?? ""} />
          <WindowLearning window={known.overview?.window.number} />
        </>
      ) : Number.isInteger(number) && number >= 0 ? (
        <WindowDetail {...props} key={number} number={number} changed={changed} />
      ) : (
        <Empty title="There is no such window" action={<a href={href("windows")}>All windows</a>} level={2} />
      )}
    </>
  );
}

function whole(text: string | null): number | null {
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null;
}

function address(before: number | null, camera: string): string {
  const query = new URLSearchParams();
  if (before !== null) query.set("before", String(before));
  if (camera !== "") query.set("camera", camera);
  return query.size > 0 ? `${href("windows")}?${query}` : href("windows");
}

interface WindowsProps extends PageProps {
  changed: unknown;
  before: number | null;
  camera: string;
}

function Windows({ known, changed, before, camera }: WindowsProps) {
  const path = `/windows?limit=${PAGE}${before === null ? "" : `&before=${before}`}`;
  const { value: windows, error, again } = useAsked<WindowRecord[]>(path, changed);
  const cameras: Camera[] = known.overview?.cameras ?? [];
  if (windows === null) {
    return error === null ? <Loading what="Loading the windows" /> : <ErrorBox what="The windows could not be loaded" error={error} onRetry={again} />;
  }
  if (windows.length === 0 && before === null) {
    return (
      <Empty title="No window yet" level={2}>
        <p>The first begins when a camera is there. Accuracy is measured at the end of each, with labels of the golden model.</p>
      </Empty>
    );
  }
  const oldest = windows.at(-1)?.id ?? null;
  const newest = known.overview?.window.number ?? windows[0]?.id ?? 0;
  const newerEnds = (before ?? 0) + PAGE;
  return (
    <>
      <AccuracyCard windows={windows} cameras={cameras} camera={camera} before={before} />
      <section class="card" aria-labelledby="list-title">
        <h2 id="list-title">{before === null ? "Newest windows" : "Older windows"}</h2>
        <WindowsTable windows={windows} camera={camera} />
        <nav class="paging" aria-label="Pages of windows">
          {before !== null && (
            <a class="button" href={address(newerEnds > newest ? null : newerEnds, camera)}>
              Newer windows
            </a>
          )}
          {windows.length === PAGE && oldest !== null && oldest > 0 && (
            <a class="button" href={address(oldest, camera)}>
              Older windows
            </a>
          )}
        </nav>
      </section>
    </>
  );
}

interface AccuracyProps {
  windows: WindowRecord[];
  cameras: Camera[];
  /** The one that is shown; empty: the mean of all. */
  camera: string;
  before: number | null;
}

function AccuracyCard({ windows, cameras, camera, before }: AccuracyProps) {
  const oldestFirst = [...windows].reverse();
  const values = oldestFirst.map((w) => measured(w, camera));
  const any = values.some((v) => v.realised !== null);
  const name = cameras.find((c) => c.id === camera)?.name ?? camera;
  return (
    <section class="card" aria-labelledby="accuracy-title">
      <div class="section-head">
        <h2 id="accuracy-title">Accuracy per window</h2>
        <label>
          Camera
          <select value={camera} onChange={(e) => go(address(before, e.currentTarget.value), true)}>
            <option value="">All, on average</option>
            {camera !== "" && !cameras.some((c) => c.id === camera) && <option value={camera}>{camera}</option>}
            {cameras.map((c) => (
              <option key={c.id} value={c.id}>
                {c.name}
              </option>
            ))}
          </select>
        </label>
      </div>
      {any ? (
        <Chart
          title={`Accuracy per window, ${camera === "" ? "mean of all cameras" : name}`}
          x={oldestFirst.map((w) => w.id)}
          xName="Window"
          series={[
            { label: "With retraining", values: values.map((v) => v.realised), colour: "--realised", points: true },
            { label: "Frozen first model", values: values.map((v) => v.frozen), colour: "--frozen", dashed: true },
          ]}
          write={(v) => percent(v)}
          range={[0, 1]}
          height={220}
        />
      ) : (
        <Empty title="Nothing is measured yet">
          <p>Accuracy comes when the labels of a window are in, a little after it has ended.</p>
        </Empty>
      )}
    </section>
  );
}

function WindowsTable({ windows, camera }: { windows: WindowRecord[]; camera: string }) {
  return (
    <Table
      caption="Retraining windows, the newest first"
      rows={windows}
      rowKey={(w) => w.id}
      empty="There is no older window."
      columns={[
        { key: "id", title: "Window", cell: (w) => <a href={href("windows", w.id)}>Window {w.id}</a> },
        { key: "began", title: "Began", cell: (w) => moment(w.start_utc_s) },
        { key: "state", title: "State", cell: (w) => outcomeBadge(w.outcome) },
        { key: "realised", title: "Right", number: true, cell: (w) => percent(measured(w, camera).realised, 1) },
        { key: "frozen", title: "Frozen", number: true, cell: (w) => percent(measured(w, camera).frozen, 1) },
        { key: "gain", title: "Gain", number: true, cell: (w) => <Gain {...measured(w, camera)} /> },
        { key: "policy", title: "Policy", cell: (w) => w.policy },
      ]}
    />
  );
}
