/** One forecast: cameras, served models, and what it cannot know. */

import { percent, points } from "../format";
import type { Forecast } from "../parts/capacity";
import { range } from "../parts/capacity";
import { Table } from "../parts/table";

interface Props {
  forecast: Forecast;
  cameras: { id: string; name: string }[];
  when: string;
}

export function ForecastCard({ forecast, cameras, when }: Props) {
  const named = (id: string): string => cameras.find((c) => c.id === id)?.name ?? id;
  const words = forecast.change.words ?? "A change";
  const boxes = forecast.cameras.some((c) => c.box !== 1);
  // The column without the change has the sizes of trends: one sentence names the cameras.
  const notes = forecast.notes.filter((n) => n.code !== "trend");
  const learning = forecast.notes.flatMap((n) => (n.code === "trend" && n.camera !== null ? [named(n.camera)] : []));
  return (
    <section class="card" aria-labelledby="forecast-title">
      <h2 id="forecast-title" class="sentence">
        {words}
      </h2>
      <p class="quiet about">
        Asked {when}, from {forecast.windows} windows up to window {forecast.last_window}. Cameras and their retraining have{" "}
        {percent(forecast.share_now)} of the device; with the change {percent(forecast.share_then)} of today's. An interval holds the mean of the
        coming windows four times in five.
      </p>
      <Table
        caption="Accuracy of each camera now, and in the coming windows without the change and with it"
        rows={forecast.cameras}
        rowKey={(c) => c.camera}
        columns={[
          { key: "camera", title: "Camera", cell: (c) => (c.now === null ? "The new camera" : named(c.camera)) },
          { key: "now", title: "Now", number: true, cell: (c) => percent(c.now, 1) },
          { key: "unchanged", title: "Without the change", number: true, cell: (c) => percent(c.unchanged, 1) },
          { key: "then", title: "Forecast", number: true, cell: (c) => percent(c.then.value, 1) },
          { key: "interval", title: "Interval", number: true, cell: (c) => range(c.then) },
          { key: "difference", title: "By the change", number: true, cell: (c) => difference(c) },
          ...(boxes ? [{ key: "box", title: "Box", cell: (c: Forecast["cameras"][number]) => (c.box === 1 ? "this one" : "the second") }] : []),
        ]}
      />
      {forecast.models.length > 0 && <Models models={forecast.models} />}
      {forecast.notes.length > 0 && (
        <>
          <h3>What this forecast rests on, and cannot know</h3>
          <ul class="notes">
            {learning.length > 0 && (
              <li>Without any change too, accuracies go on as in the recorded windows (the column “Without the change”): {learning.join(", ")}.</li>
            )}
            {notes.map((n) => (
              <li key={`${n.code} ${n.camera ?? ""} ${n.model ?? ""}`}>
                {n.message}.{n.of_all !== null && ` ${n.of_all}.`}
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}

/** The forecast less the accuracy without the change; of an earlier version, less the accuracy now. */
function difference(c: Forecast["cameras"][number]): string {
  const without = c.unchanged ?? c.now;
  return without === null ? "–" : points(c.then.value - without);
}

function ms(value: number | null): string {
  return value === null ? "not served" : `${value.toFixed(value < 10 ? 1 : 0)}\u00a0ms`;
}

function Models({ models }: { models: Forecast["models"] }) {
  return (
    <Table
      caption="Latency of each served model now and with the change"
      showCaption
      rows={models}
      rowKey={(m) => m.model}
      columns={[
        { key: "model", title: "Model", cell: (m) => m.model },
        { key: "slo", title: "Objective", number: true, cell: (m) => ms(m.slo_ms) },
        { key: "now", title: "Now", number: true, cell: (m) => ms(m.now_ms) },
        { key: "then", title: "Forecast", number: true, cell: (m) => ms(m.then_ms?.value ?? null) },
        { key: "interval", title: "Interval", number: true, cell: (m) => (m.then_ms === null ? "–" : `${ms(m.then_ms.low)} to ${ms(m.then_ms.high)}`) },
        { key: "part", title: "Served of its rate", number: true, cell: (m) => `${percent(m.now_part)} → ${percent(m.then_part)}` },
      ]}
    />
  );
}
