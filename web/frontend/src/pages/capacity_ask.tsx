/** Asks for a forecast: the change, and for some the camera that it is about. */

import { useState } from "preact/hooks";

import { CHANGES } from "../parts/capacity";

interface Props {
  cameras: { id: string; name: string }[];
  windows: number;
  needed: number;
  busy: boolean;
  onAsk: (body: Record<string, unknown>) => Promise<void>;
}

export function AskForecast({ cameras, windows, needed, busy, onAsk }: Props) {
  const [name, setName] = useState(CHANGES[0]?.name ?? "");
  const [camera, setCamera] = useState("");
  const change = CHANGES.find((c) => c.name === name);
  const short = windows < needed;
  return (
    <section class="card" aria-labelledby="ask-title">
      <h2 id="ask-title">What if?</h2>
      <p class="quiet about">
        The last windows are replayed as they were and with the change, by the planner of this box. It takes seconds to minutes and gives way to
        the cameras. Nothing is changed by asking.
      </p>
      {short && (
        <p role="status" class="few">
          A forecast needs {needed} closed windows in a row with the same cameras and length. There {windows === 1 ? "is" : "are"} {windows}.
        </p>
      )}
      <div class="what-if-ask">
        <label>
          Change
          <select value={name} onChange={(e) => setName(e.currentTarget.value)}>
            {CHANGES.map((c) => (
              <option key={c.name} value={c.name}>
                {c.title}
              </option>
            ))}
          </select>
        </label>
        {change?.camera !== undefined && (
          <label>
            {change.camera}
            <select value={camera} onChange={(e) => setCamera(e.currentTarget.value)}>
              <option value="">{change.body.kind === "camera" ? "the camera of middle accuracy" : "every camera"}</option>
              {cameras.map((c) => (
                <option key={c.id} value={c.id}>
                  {c.name}
                </option>
              ))}
            </select>
          </label>
        )}
        <button
          type="button"
          class="primary"
          disabled={busy || short}
          onClick={() => void onAsk({ ...change?.body, ...(change?.camera !== undefined && camera !== "" ? { camera } : {}) })}
        >
          Forecast
        </button>
      </div>
    </section>
  );
}
