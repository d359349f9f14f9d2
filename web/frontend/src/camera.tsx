/** One camera: its live picture, how it is, how right it is. */

import { useEffect, useRef, useState } from "preact/hooks";

import type { Camera, CameraStateName, WindowRecord } from "./api";
import { AccuracyChart } from "./chart";
import { percent, points, shortVersion } from "./format";
import type { Live, PictureHeader } from "./live";
import { draw, inWords } from "./live";

const STATES: Record<CameraStateName, [string, string]> = {
  live: ["Live", "good"],
  connecting: ["Connecting", "wait"],
  stalled: ["Stalled", "bad"],
  reconnecting: ["Reconnecting", "bad"],
  refused: ["Refused", "bad"],
  stopped: ["Off", "off"],
};

export function cameraColour(index: number): string {
  return `var(--camera-${index % 8})`;
}

/** The newest window in which both were measured: figures of different windows are not compared. */
function measured(camera: Camera, windows: WindowRecord[]): { realised: number | null; frozen: number | null } {
  for (const window of windows) {
    const row = window.cameras.find((r) => r.camera === camera.id);
    if (row?.realised && row.frozen) return { realised: row.realised.value, frozen: row.frozen.value };
  }
  return { realised: camera.accuracy, frozen: null };
}

interface Props {
  camera: Camera;
  index: number;
  live: Live | null;
  boxes: boolean;
  windows: WindowRecord[];
  onModels: () => void;
}

export function CameraCard({ camera, index, live, boxes, windows, onModels }: Props) {
  const [label, tone] = STATES[camera.state] ?? [camera.state, "wait"];
  const { realised, frozen } = measured(camera, windows);
  const gain = realised === null || frozen === null ? null : realised - frozen;
  const lost = Object.entries(camera.losses).filter(([, n]) => n > 0);
  return (
    <article class="card camera" aria-labelledby={`name-${camera.id}`}>
      <header>
        <span class="dot" style={{ background: cameraColour(index) }} aria-hidden="true" />
        <h3 id={`name-${camera.id}`}>{camera.name}</h3>
        <span class={`badge ${tone}`}>{label}</span>
      </header>
      <LivePicture camera={camera} live={live} boxes={boxes} />
      <dl class="facts">
        <Fact name="Camera" value={camera.state === "live" ? `${camera.fps.toFixed(1)} fps` : "–"} />
        <Fact name="Answers" value={camera.state === "live" ? `${camera.answers_per_s.toFixed(1)} / s` : "–"} />
        <Fact name="Delay" value={camera.state === "live" ? `${camera.delay_s.toFixed(2)} s` : "–"} />
        <div>
          <dt>Model</dt>
          <dd>
            <button class="link" onClick={onModels} title={camera.model_version} aria-haspopup="dialog">
              {shortVersion(camera.model_version, camera.id)}
            </button>
          </dd>
        </div>
      </dl>
      <div class="accuracy">
        <p class="now">
          <span class="key realised" aria-hidden="true" />
          <strong>{percent(realised, 1)}</strong> <span class="quiet">correct</span>
        </p>
        <p class="now">
          <span class="key frozen" aria-hidden="true" />
          <strong>{percent(frozen, 1)}</strong> <span class="quiet">had it stayed frozen</span>
        </p>
        {gain !== null && <span class={`gain ${gain >= 0 ? "up" : "down"}`}>{points(gain)}</span>}
      </div>
      <AccuracyChart windows={windows} camera={camera.id} />
      {(lost.length > 0 || camera.recorder) && (
        <details class="losses">
          <summary>{lost.length > 0 ? `${lost.length} kinds of loss counted` : "Recorder"}</summary>
          <ul>
            {lost.map(([name, n]) => (
              <li key={name}>
                {name.replaceAll("_", " ")}: {n.toLocaleString()}
              </li>
            ))}
            {camera.recorder && <li>{camera.recorder}</li>}
          </ul>
        </details>
      )}
    </article>
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

function LivePicture({ camera, live, boxes }: { camera: Camera; live: Live | null; boxes: boolean }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [seen, setSeen] = useState<PictureHeader | null>(null);
  const wanted = useRef(boxes);
  wanted.current = boxes;

  useEffect(() => {
    let told = 0;
    return live?.listen(camera.id, (picture) => {
      if (canvas.current !== null) draw(canvas.current, picture, wanted.current);
      if (Date.now() - told > 1000) {
        told = Date.now();
        setSeen(picture.header);
      }
    });
  }, [live, camera.id]);

  const shows = camera.state === "live" && seen !== null;
  const ratio = camera.width > 0 && camera.height > 0 ? camera.width / camera.height : 16 / 9;
  const retry = camera.retry_in_s >= 1 ? `Next try in ${Math.ceil(camera.retry_in_s)} s.` : "";
  return (
    <div class="picture" style={{ aspectRatio: String(ratio) }}>
      <canvas
        ref={canvas}
        class={shows ? "" : "old"}
        data-painted={seen === null ? 0 : 1}
        role="img"
        aria-label={seen === null ? `${camera.name}: no picture yet` : `${camera.name}: ${inWords(seen)}`}
      />
      {!shows && (
        <p class="veil">
          <strong>{camera.state === "live" ? "Waiting for a picture" : STATES[camera.state]?.[0]}</strong>
          {camera.state !== "live" && (camera.message || retry) && (
            <span>
              {camera.message}
              {camera.message && retry && <br />}
              {retry}
            </span>
          )}
        </p>
      )}
    </div>
  );
}
