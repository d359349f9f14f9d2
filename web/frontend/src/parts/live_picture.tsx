/** A camera's live picture with the boxes of its answers. Asked for only while it is in view. */

import { createContext } from "preact";
import { useContext, useEffect, useRef, useState } from "preact/hooks";

import type { PictureHeader } from "../answers";
import type { Camera, CameraStateName } from "../api";
import type { Tone } from "./badge";
import type { Live, Picture } from "./live";
import { draw, inWords } from "./live";

export const LiveContext = createContext<Live | null>(null);

const STATES: Record<CameraStateName, [string, Tone]> = {
  live: ["Live", "good"],
  connecting: ["Connecting", "wait"],
  stalled: ["Stalled", "bad"],
  reconnecting: ["Reconnecting", "bad"],
  refused: ["Refused", "bad"],
  stopped: ["Off", "off"],
};

/** A camera's state in words, and how bad it is. */
export function stateOf(camera: Camera): [string, Tone] {
  return wordsOf(camera.state.state);
}

/** A camera's state by its name. */
export function wordsOf(state: CameraStateName): [string, Tone] {
  return STATES[state] ?? [state, "wait"];
}

/** Corners as fractions of the picture. */
export type Polygon = [number, number][];

interface Props {
  camera: Camera;
  boxes: boolean;
  /** Pictures a second, at most. */
  fps?: number;
  zones?: { name: string; polygon: Polygon }[];
}

export function LivePicture({ camera, boxes, fps = 5, zones = [] }: Props) {
  const live = useContext(LiveContext);
  const place = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [inView, setInView] = useState(false);
  const [seen, setSeen] = useState<PictureHeader | null>(null);
  const wanted = useRef(boxes);
  wanted.current = boxes;

  useEffect(() => {
    if (place.current === null) return undefined;
    const observer = new IntersectionObserver((entries) => setInView(entries.at(-1)?.isIntersecting ?? false), {
      rootMargin: "80px",
    });
    observer.observe(place.current);
    return () => observer.disconnect();
  }, []);

  useEffect(() => {
    if (live === null || !inView) return undefined;
    let reported_ms = 0;
    const show = (picture: Picture): void => {
      if (canvas.current !== null) draw(canvas.current, picture, wanted.current);
      if (Date.now() - reported_ms > 1000) {
        reported_ms = Date.now();
        setSeen(picture.header);
      }
    };
    return live.listen(camera.id, show, fps);
  }, [live, camera.id, inView, fps]);

  const { state, message, connection, stream } = camera.state;
  const shows = state === "live" && seen !== null;
  const ratio = stream.width > 0 && stream.height > 0 ? stream.width / stream.height : 16 / 9;
  const retry = connection.retry_in_s >= 1 ? `Next try in ${Math.ceil(connection.retry_in_s)} s.` : "";
  return (
    <div class="picture" ref={place} style={{ aspectRatio: String(ratio) }}>
      <canvas
        ref={canvas}
        class={shows ? "" : "old"}
        data-painted={seen === null ? 0 : 1}
        role="img"
        aria-label={seen === null ? `${camera.name}: no picture yet` : `${camera.name}: ${inWords(seen)}`}
      />
      {zones.length > 0 && <Zones zones={zones} />}
      {!shows && (
        <p class="veil">
          <strong>{state === "live" ? "Waiting for a picture" : stateOf(camera)[0]}</strong>
          {state !== "live" && (message || retry) && (
            <span>
              {message}
              {message && retry && <br />}
              {retry}
            </span>
          )}
        </p>
      )}
    </div>
  );
}

function Zones({ zones }: { zones: { name: string; polygon: Polygon }[] }) {
  return (
    <svg class="zones" viewBox="0 0 1 1" preserveAspectRatio="none" role="img" aria-label={`Zones: ${zones.map((z) => z.name).join(", ")}`}>
      {zones.map((zone) => (
        <polygon key={zone.name} points={zone.polygon.map(([x, y]) => `${x},${y}`).join(" ")}>
          <title>{zone.name}</title>
        </polygon>
      ))}
    </svg>
  );
}
