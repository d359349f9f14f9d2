/** A camera's settings on its own page: the form of Settings, Cameras. */

import type { Camera, CameraRecord, Me } from "../api";
import type { Asked } from "../parts/asking";
import { useAsked } from "../parts/asking";
import type { Schema } from "../parts/schema_form";
import { ErrorBox, Loading } from "../parts/states";
import { go, href } from "../router";
import { may } from "../session";
import { CameraForm } from "./camera_form";

interface Props {
  camera: Camera;
  detail: Asked<CameraRecord>;
  me: Me;
}

export function SettingsTab({ camera, detail, me }: Props) {
  const schema = useAsked<Schema>("/schema/site");
  if (detail.value === null || schema.value === null) {
    const failed = detail.value === null ? detail : schema;
    return failed.error !== null ? (
      <ErrorBox what="The settings could not be loaded" error={failed.error} onRetry={failed.again} />
    ) : (
      <Loading />
    );
  }
  return (
    <section class="card" aria-labelledby="camera-settings">
      <div class="card-head">
        <h2 id="camera-settings">Settings</h2>
        <span class="row-actions">
          <a href={href("settings", "cameras", camera.id, "zones")}>{may(me, "operator") ? "Draw zones on the picture" : "Zones"}</a>
          <a href={href("settings", "cameras", camera.id, "lines")}>{may(me, "operator") ? "Draw lines" : "Lines"}</a>
          <a href={href("settings", "cameras", camera.id, "masks")}>{may(me, "admin") ? "Draw masks" : "Masks"}</a>
        </span>
      </div>
      <CameraForm key={camera.id} root={schema.value} me={me} camera={detail.value} onSaved={detail.again} onRemoved={() => go(href("wall"))} />
    </section>
  );
}
