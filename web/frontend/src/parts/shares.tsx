/** The shares of the device now, and the retrainings that run. */

import type { Overview } from "../api";
import { cameraColour } from "./colours";
import { config, percent } from "../format";
import type { DevicePart } from "./device_bar";
import { DeviceBar, PARTS } from "./device_bar";

interface Part extends DevicePart {
  /** A camera's part has a place in the table of cameras. */
  ofCamera: boolean;
}

function parts(overview: Overview): Part[] {
  const out: Part[] = [];
  overview.cameras.forEach((camera, index) => {
    const share = overview.shares[camera.id];
    if (!share) return;
    const colour = cameraColour(index);
    out.push({ key: `${camera.id}-i`, name: `${camera.name}: inference`, share: share.inference, colour, training: false, ofCamera: true });
    out.push({ key: `${camera.id}-r`, name: `${camera.name}: retraining`, share: share.retraining, colour, training: true, ofCamera: true });
  });
  const add = (part: keyof typeof PARTS, share: number): void => void out.push({ key: part, ...PARTS[part], share, ofCamera: false });
  add("golden", overview.golden_share);
  add("profiling", overview.profiling_share);
  if (overview.lent_share > 0) add("lent", overview.lent_share);
  if (overview.serving) {
    add("serving", overview.serving.share?.reserved ?? 0);
    add("front", overview.serving.front_share);
  }
  add("control", overview.control_share);
  return out;
}

/** From so many cameras on the table is folded away. */
const FOLDED_FROM = 6;

/** How shares are kept. */
export const ENFORCED: Record<string, string> = { cap: "held by the kernel", reserve: "reserved", coop: "kept by agreement" };

/** The units of a device in words. */
export function unitsOf({ device, units }: { device: string; units: number }): string {
  return device === "cpu" ? `${units} CPU cores` : `${device}, ${units} units`;
}

export function SharesNow({ overview }: { overview: Overview }) {
  const all = parts(overview);
  const sum = all.reduce((total, p) => total + p.share, 0);
  const free = Math.max(0, 1 - sum);
  const { device } = overview;
  const small = all.filter((p) => !p.ofCamera);
  return (
    <section class="card" aria-labelledby="shares-title">
      <h2 id="shares-title">Shares now</h2>
      <p class="quiet">
        {unitsOf(device)} · {device.kind}, {ENFORCED[device.enforced] ?? device.enforced}
      </p>
      <DeviceBar parts={all} />
      {overview.cameras.length > FOLDED_FROM ? (
        <details>
          <summary>Shares of {overview.cameras.length} cameras</summary>
          <Table overview={overview} small={small} sum={sum} free={free} />
        </details>
      ) : (
        <Table overview={overview} small={small} sum={sum} free={free} />
      )}
      <Jobs overview={overview} />
    </section>
  );
}

function Table({ overview, small, sum, free }: { overview: Overview; small: Part[]; sum: number; free: number }) {
  return (
    <table class="legend">
      <thead>
        <tr>
          <th scope="col">Camera</th>
          <th scope="col">
            <span class="swatch" aria-hidden="true" /> Inference
          </th>
          <th scope="col">
            <span class="swatch training" aria-hidden="true" /> Retraining
          </th>
        </tr>
      </thead>
      <tbody>
        {overview.cameras.map((camera, index) => (
          <tr key={camera.id}>
            <th scope="row">
              <span class="dot" style={{ background: cameraColour(index) }} aria-hidden="true" />
              {camera.name}
            </th>
            <td>{percent(overview.shares[camera.id]?.inference)}</td>
            <td>{overview.shares[camera.id]?.retraining ? percent(overview.shares[camera.id]?.retraining) : "–"}</td>
          </tr>
        ))}
        {small.map((p) => (
          <tr key={p.key}>
            <th scope="row">
              <span class="dot" style={{ background: p.colour }} aria-hidden="true" />
              {p.name}
            </th>
            <td colSpan={2}>{percent(p.share)}</td>
          </tr>
        ))}
        <tr>
          <th scope="row">
            <span class="dot free" aria-hidden="true" />
            {sum > 1.005 ? "Asked beyond the device" : "Free"}
          </th>
          <td colSpan={2}>{percent(sum > 1.005 ? sum - 1 : free)}</td>
        </tr>
      </tbody>
    </table>
  );
}

function Jobs({ overview }: { overview: Overview }) {
  if (overview.jobs.length === 0) return <p class="quiet jobs-none">No retraining runs at the moment.</p>;
  return (
    <ul class="jobs" aria-label="Running retrainings">
      {overview.jobs.map((job) => {
        const camera = overview.cameras.find((c) => c.id === job.camera);
        return (
          <li key={job.job}>
            <p>
              <strong>{camera?.name ?? job.camera}</strong>
              <span>{percent(job.fraction)}</span>
            </p>
            <progress value={job.fraction} max={1} aria-label={`Retraining of ${camera?.name ?? job.camera}`} />
            <p class="quiet">
              {config(job.config, job.retraining)}
              {job.box !== "" && `, on ${job.box}`}
              {job.held_out !== null && `; now ${percent(job.held_out)}`}
              {job.predicted_accuracy !== null && `, expected ${percent(job.predicted_accuracy)}`}
            </p>
          </li>
        );
      })}
    </ul>
  );
}
