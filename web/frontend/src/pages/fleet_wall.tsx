/** The cameras of all boxes on one wall: of this box live, of the others the newest picture. */

import { useEffect, useRef, useState } from "preact/hooks";

import type { AskedBoxAnswer, FleetWallAnswer, FleetWallCamera } from "../answers";
import type { Camera } from "../api";
import { pictureUrl } from "../api";
import { ago, percent } from "../format";
import { AskedBoxes } from "../parts/asked_boxes";
import { useAsked } from "../parts/asking";
import { Badge } from "../parts/badge";
import { Choice } from "../parts/choice";
import { LivePicture, wordsOf } from "../parts/live_picture";
import { Empty, ErrorBox, Loading } from "../parts/states";
import { href } from "../router";

const EVERY_S = 3;
const PICTURE_MS = 3000;
const AGAIN_MS = 10000;
const WIDTH = 640;

export function FleetWall({ cameras }: { cameras: Camera[] }) {
  const asked = useAsked<FleetWallAnswer>("/fleet/wall", null, EVERY_S);
  const [box, setBox] = useState("");
  const wall = asked.value;
  if (wall === null) {
    return asked.error === null ? <Loading what="Asking the boxes" /> : <ErrorBox what="The boxes could not be asked" error={asked.error} onRetry={asked.again} />;
  }
  const names = wall.boxes.map((b) => b.box);
  const shown = wall.cameras.filter((c) => box === "" || c.box === box);
  return (
    <section aria-labelledby="fleet-wall-title">
      <div class="card-head">
        <h2 id="fleet-wall-title">
          {wall.cameras.length} {wall.cameras.length === 1 ? "camera" : "cameras"} of {names.length} {names.length === 1 ? "box" : "boxes"}
        </h2>
        <div class="filters">
          <Choice label="Box" value={box} options={[["", "all"], ...names.map((n) => [n, n] as const)]} onChange={setBox} />
        </div>
      </div>
      <AskedBoxes boxes={wall.boxes} />
      {shown.length === 0 ? (
        <Empty title="No camera here">The boxes that answered have none that you may see.</Empty>
      ) : (
        <ul class={shown.length > 4 ? "wall many" : shown.length === 4 ? "wall four" : shown.length === 1 ? "wall one" : "wall"}>
          {shown.map((c) => (
            <Tile
              key={`${c.box ?? ""} ${c.camera}`}
              camera={c}
              here={c.box === wall.me ? (cameras.find((o) => o.id === c.camera) ?? null) : null}
              box={wall.boxes.find((b) => b.box === c.box) ?? null}
            />
          ))}
        </ul>
      )}
    </section>
  );
}

interface TileProps {
  camera: FleetWallCamera;
  /** The camera as this box's page knows it; null: it is another box's. */
  here: Camera | null;
  box: AskedBoxAnswer | null;
}

function Tile({ camera, here, box }: TileProps) {
  const [label, tone] = camera.state === null ? (["Not known", "wait"] as const) : wordsOf(camera.state);
  const id = `fleet-${camera.box ?? "none"}-${camera.camera}`;
  const page = here !== null ? href("camera", camera.camera) : box !== null && box.page !== "" ? `${box.page}${href("camera", camera.camera)}` : null;
  return (
    <li class="card tile" aria-labelledby={id}>
      <header>
        <h2 id={id}>{page === null ? camera.name : <a href={page}>{camera.name}</a>}</h2>
        <span class="badge off">{camera.box ?? "no box"}</span>
        <Badge tone={tone}>{label}</Badge>
      </header>
      {here !== null ? <LivePicture camera={here} boxes /> : <Still camera={camera} box={box} />}
      <dl class="facts">
        <div>
          <dt>Right</dt>
          <dd>{percent(camera.accuracy)}</dd>
        </div>
        <div>
          <dt>Camera</dt>
          <dd>{camera.state === "live" ? `${camera.fps.toFixed(1)} fps` : "–"}</dd>
        </div>
        <div>
          <dt>Answers</dt>
          <dd>{camera.state === "live" ? `${camera.answers_per_s.toFixed(1)} / s` : "–"}</dd>
        </div>
      </dl>
    </li>
  );
}

/** The newest picture of a camera of another box; the next one is asked for when this one is there, while it is in view. */
function Still({ camera, box }: { camera: FleetWallCamera; box: AskedBoxAnswer | null }) {
  const place = useRef<HTMLDivElement>(null);
  const [inView, setInView] = useState(false);
  const [number, setNumber] = useState(0);
  const [painted, setPainted] = useState("");
  const asks = camera.state !== null && camera.box !== null && inView;
  const url = asks ? `${pictureUrl(`/fleet/boxes/${encodeURIComponent(camera.box ?? "")}/cameras/${encodeURIComponent(camera.camera)}/picture.jpg`)}?width=${WIDTH}#${number}` : "";

  useEffect(() => {
    if (place.current === null) return undefined;
    const observer = new IntersectionObserver((entries) => setInView(entries.at(-1)?.isIntersecting ?? false), { rootMargin: "80px" });
    observer.observe(place.current);
    return () => observer.disconnect();
  }, []);

  useEffect(() => {
    if (url === "") return undefined;
    let timer = 0;
    const picture = new Image();
    picture.onload = () => {
      setPainted(picture.src);
      timer = window.setTimeout(() => setNumber((n) => n + 1), PICTURE_MS);
    };
    picture.onerror = () => {
      timer = window.setTimeout(() => setNumber((n) => n + 1), AGAIN_MS);
    };
    picture.src = url;
    return () => {
      picture.onload = picture.onerror = null;
      clearTimeout(timer);
    };
  }, [url]);

  const old = camera.state !== "live";
  const why = camera.box === null ? "No box answers it" : camera.state === null ? `${camera.box} does not answer` : wordsOf(camera.state)[0];
  return (
    <div class="picture still" ref={place}>
      {painted !== "" && <img class={old ? "old" : ""} src={painted} alt={`${camera.name}, the newest picture`} />}
      {(old || painted === "") && (
        <p class="veil">
          <strong>{old ? why : "Waiting for a picture"}</strong>
          {camera.state === null && box !== null && box.age_s !== null && <span>It last answered {ago(box.age_s)}.</span>}
        </p>
      )}
    </div>
  );
}
