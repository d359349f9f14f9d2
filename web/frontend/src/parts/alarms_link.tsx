/** A camera's alarms that have not ended, as a badge that leads to them; nothing where there are none. */

import type { Alarm } from "../api";
import { href } from "../router";
import { Icon } from "./icon";

export function AlarmsLink({ camera, alarms }: { camera: string; alarms: Alarm[] }) {
  if (alarms.length === 0) return null;
  return (
    <a class="badge bad" href={`${href("camera", camera)}?tab=alarms`}>
      <Icon name="bell" size={13} />
      {alarms.length} {alarms.length === 1 ? "alarm" : "alarms"}
    </a>
  );
}
