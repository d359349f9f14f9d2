/** Earlier forecasts, and how right they were. */

import { moment, percent } from "../format";
import { Badge } from "../parts/badge";
import type { Forecast } from "../parts/capacity";
import { Table } from "../parts/table";

interface Props {
  forecasts: Forecast[];
  shown: number | null;
  onShow: (id: number) => void;
}

export function PastForecasts({ forecasts, shown, onShow }: Props) {
  // A change that was made once counts once, with the newest answer.
  const events = new Map<string, NonNullable<Forecast["outcome"]>>();
  for (const f of forecasts) {
    const event = `${f.change.kind} ${f.outcome?.window ?? ""}`;
    if (f.outcome !== null && !events.has(event)) events.set(event, f.outcome);
  }
  const values = [...events.values()].flatMap((outcome) => outcome.cameras);
  const error = values.reduce((sum, c) => sum + Math.abs(c.forecast - c.came), 0) / Math.max(1, values.length);
  const held = values.filter((c) => c.held).length;
  return (
    <section class="card" aria-labelledby="past-title">
      <h2 id="past-title">How right such answers were</h2>
      <p class="quiet about">
        {values.length === 0
          ? "A forecast is compared when its change was made, alone, and some windows are over since. None was compared yet."
          : `${held} of ${values.length} accuracies came inside their interval; the mean error is ${(100 * error).toFixed(1)} points. Intervals are widened where they did not hold.`}
      </p>
      <Table
        caption="Forecasts, the newest first, with what came"
        rows={forecasts}
        rowKey={(f) => f.id}
        rowClass={(f) => (f.id === shown ? "chosen" : "")}
        columns={[
          { key: "change", title: "Change", cell: (f) => f.change.words ?? f.change.kind },
          { key: "asked", title: "Asked", cell: (f) => moment(f.at_utc_s) },
          { key: "came", title: "What came", cell: (f) => <Came forecast={f} /> },
          {
            key: "show",
            title: "Forecast",
            cell: (f) => (
              <button type="button" class="link" aria-label={`Show the forecast of ${f.change.words ?? f.change.kind}, ${moment(f.at_utc_s)}`} onClick={() => onShow(f.id)}>
                Show
              </button>
            ),
          },
        ]}
      />
    </section>
  );
}

function Came({ forecast }: { forecast: Forecast }) {
  const { outcome } = forecast;
  if (outcome === null) return <span class="quiet">not made, or not measured yet</span>;
  const rows = [...outcome.cameras, ...outcome.models];
  if (rows.length === 0) return <span class="quiet">compared for cameras that you do not see</span>;
  const held = rows.every((r) => r.held);
  return (
    <div class="came">
      <Badge tone={held ? "good" : "wait"}>{held ? "As forecast" : "Outside the interval"}</Badge>
      <ul>
        {outcome.cameras.map((c) => (
          <li key={c.camera}>
            {c.camera}: {percent(c.forecast, 1)} forecast, {percent(c.came, 1)} came
          </li>
        ))}
        {outcome.models.map((m) => (
          <li key={m.model}>
            {m.model}: {m.forecast_ms.toFixed(0)} ms forecast, {m.came_ms.toFixed(0)} ms came
          </li>
        ))}
      </ul>
    </div>
  );
}
