/** The choice of one camera, or of all, over a list. */

import type { Camera } from "../api";

interface Props {
  cameras: Camera[];
  /** Its id; empty: all. */
  chosen: string;
  onChoose: (camera: string) => void;
}

export function CameraFilter({ cameras, chosen, onChoose }: Props) {
  return (
    <label>
      Camera{" "}
      <select value={chosen} onChange={(e) => onChoose(e.currentTarget.value)}>
        <option value="">all</option>
        {cameras.map((c) => (
          <option key={c.id} value={c.id}>
            {c.name}
          </option>
        ))}
      </select>
    </label>
  );
}
