/** How right a camera was per window, and what there was to see. */

import { useState } from "preact/hooks";

import type { WindowClasses } from "../answers";
import type { Camera } from "../api";
import type { History } from "../parts/accuracy";
import { useAsked } from "../parts/asking";
import { Chart } from "../parts/chart";
import { Choice } from "../parts/choice";
import { Empty, ErrorBox, Loading } from "../parts/states";

const SHOWN = 8;

function hundredths(value: number | null): number | null {
  return value === null ? null : 100 * value;
}

export function AccuracyTab({ camera, past }: { camera: Camera; past: History }) {
  return (
    <div class="cards wide-cards">
      <section class="card" aria-labelledby="accuracy-title">
        <h2 id="accuracy-title">Accuracy per window</h2>
        {past.x.length === 0 ? (
          <Empty title="Not measured yet">
            When the first window is over and its sample is labelled by the teacher, its accuracy is shown here.
          </Empty>
        ) : (
          <Chart
            title={`Accuracy of ${camera.name} per window`}
            x={past.x}
            xName="Window"
            range={[0, 100]}
            height={230}
            write={(v) => `${Number(v.toFixed(1))} %`}
            series={[
              { label: "Really answered", values: past.realised.map(hundredths), colour: "--realised", points: true },
              { label: "First model, had it never learned", values: past.frozen.map(hundredths), colour: "--frozen", dashed: true },
              ...(past.download.some((v) => v !== null)
                ? [{ label: `${camera.state.model.student} as downloaded`, values: past.download.map(hundredths), colour: "--camera-3", dashed: true }]
                : []),
              ...(past.whole.some((v, n) => v !== null && v !== past.download[n])
                ? [{ label: `${camera.state.model.student}, at the whole picture`, values: past.whole.map(hundredths), colour: "--camera-4", dashed: true }]
                : []),
            ]}
          />
        )}
        <p class="hint">
          Measured against the teacher's labels of a random sample of pictures, old answers included. The first model is asked
          about the same pictures, so that the gain by retraining is seen; a download, at the least score that was best on past
          labels, and looking at the same part of the picture.
        </p>
      </section>
      <Classes camera={camera} latest={past.x.at(-1) ?? null} />
    </div>
  );
}

function Classes({ camera, latest }: { camera: Camera; latest: number | null }) {
  const [whose, setWhose] = useState<"teacher" | "student">("teacher");
  const asked = useAsked<WindowClasses[]>(`/cameras/${encodeURIComponent(camera.id)}/classes?windows=60`, latest);
  const rows = asked.value === null ? [] : [...asked.value].reverse();
  const totals = new Map<string, number>();
  for (const row of rows) {
    for (const [name, n] of Object.entries(row.teacher)) totals.set(name, (totals.get(name) ?? 0) + n);
  }
  const names = [...totals].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  return (
    <section class="card" aria-labelledby="classes-title">
      <div class="card-head">
        <h2 id="classes-title">Classes over time</h2>
        {rows.length > 0 && (
          <Choice
            label="Seen by"
            value={whose}
            options={[
              ["teacher", "the teacher"],
              ["student", "the camera's model"],
            ]}
            onChange={setWhose}
          />
        )}
      </div>
      {asked.error !== null && asked.value === null ? (
        <ErrorBox what="The classes could not be loaded" error={asked.error} onRetry={asked.again} />
      ) : asked.value === null ? (
        <Loading />
      ) : rows.length === 0 ? (
        <Empty title="Nothing labelled yet">After the first window this shows how often each class was seen.</Empty>
      ) : (
        <Chart
          title={`Objects per picture at ${camera.name}, by class, as ${whose === "teacher" ? "the teacher" : "the camera's model"} saw them`}
          x={rows.map((r) => r.window)}
          xName="Window"
          height={230}
          write={(v) => String(Number(v.toFixed(2)))}
          series={names.slice(0, SHOWN).map((name, n) => ({
            label: name,
            values: rows.map((r) => (r.frames === 0 ? null : (r[whose][name] ?? 0) / r.frames)),
            colour: `--camera-${n % 8}`,
            dashed: n % 2 === 1,
            points: true,
          }))}
        />
      )}
      <p class="hint">
        Objects per labelled picture. The objects in view change with the hour and the weather; that is why models age.
        {names.length > SHOWN && ` The ${SHOWN} most frequent of ${names.length} classes are drawn.`}
      </p>
    </section>
  );
}
