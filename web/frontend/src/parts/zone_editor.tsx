/** Drawing zones on a camera's picture: by mouse and touch, or by keyboard and numbers. Crossing edges are refused. */

import { useState } from "preact/hooks";

import type { EditorProps, Place, Surface } from "./place_editor";
import { PlaceCards, PlacePicture, PlaceStatus, WIDE, changed, drawnPoints, freeName, useSurface } from "./place_editor";
import type { Point } from "./polygon";
import { MIN_POINTS, wrong } from "./polygon";
import { DraggedCorners, TypedCorners, useCorners } from "./zone_corners";
import type { Outline } from "./zone_outline";
import { DrawnOutline, useOutline } from "./zone_outline";

export interface Zone extends Place {
  polygon: Point[];
}

type ZoneNoun = "zone" | "mask";

interface Props extends EditorProps<Zone> {
  /** The kind of places: zones for rules and counts, or masks, which are of no class. */
  noun?: ZoneNoun;
}

const RECTANGLE: Point[] = [[0.3, 0.4], [0.7, 0.4], [0.7, 0.8], [0.3, 0.8]];
const HINTS = {
  zone: { idle: "An object is in a zone when the middle of its lower edge is.", none: "No zone yet: rules see the whole picture." },
  mask: { idle: "A mask covers every pixel that it touches.", none: "No mask yet: everything in the picture is seen." },
};

export function ZoneEditor({ picture, ratio, places: zones, classes, problems, disabled = false, noun = "zone", onChange }: Props) {
  const [chosen, setChosen] = useState(0);
  const [said, setSaid] = useState("");
  const surface = useSurface(ratio);
  const at = Math.min(chosen, zones.length - 1);
  const zone = zones[at];
  const add = (polygon: Point[]): boolean => {
    const why = wrong(polygon);
    setSaid(why ?? "");
    if (why !== null) return false;
    onChange([...zones, { name: freeName(zones, noun), polygon, classes: [] }]);
    setChosen(zones.length);
    return true;
  };
  const outline = useOutline({ surface, disabled, say: setSaid, onClose: add });
  const corners = useCorners({ polygon: zone?.polygon, disabled, say: setSaid, onChange: (polygon) => onChange(changed(zones, at, { polygon })) });
  const drawing = outline.corners !== null;

  return (
    <div class="zone-editor">
      <div>
        <ZoneTools noun={noun} outline={outline} disabled={disabled} onRectangle={() => add(RECTANGLE)} />
        <PlacePicture
          picture={picture}
          ratio={ratio}
          noun={noun}
          surface={surface}
          drawing={drawing}
          onPointerDown={outline.press}
          onPointerMove={(event) => (drawing ? outline.point : corners.drag)(surface.where(event))}
          onPointerUp={() => corners.grasp(null)}
          onPointerCancel={() => corners.grasp(null)}
          onPointerLeave={() => outline.point(null)}
        >
          {zones.map((z, n) => (
            <DrawnZone key={n} zone={z} surface={surface} chosen={n === at && !drawing} onChoose={() => !drawing && setChosen(n)} />
          ))}
          {!drawing && !disabled && zone !== undefined && <DraggedCorners name={zone.name} corners={corners} surface={surface} />}
          <DrawnOutline outline={outline} surface={surface} />
        </PlacePicture>
        <PlaceStatus said={said} hint={hint(noun, drawing, zone !== undefined)} />
      </div>
      <PlaceCards
        noun={noun}
        places={zones}
        at={at}
        classes={noun === "zone" ? classes : null}
        problems={problems}
        disabled={disabled}
        onChoose={setChosen}
        onChange={onChange}
        buttons={(z, n) => n !== at && <ShapeButton name={z.name} onClick={() => setChosen(n)} />}
        more={() => <TypedCorners corners={corners} disabled={disabled} />}
      >
        {HINTS[noun].none}
      </PlaceCards>
    </div>
  );
}

function hint(noun: ZoneNoun, drawing: boolean, chosen: boolean): string {
  if (drawing) return "Click the corners one after another; click the first again, or press Enter, to close. Escape cancels.";
  if (!chosen) return HINTS[noun].idle;
  return "Drag a corner, or choose it and use the arrow keys (with Shift ten times as far). The small points between corners add one.";
}

interface ToolsProps {
  noun: ZoneNoun;
  outline: Outline;
  disabled: boolean;
  onRectangle: () => void;
}

function ZoneTools({ noun, outline: { corners, begin, stop, close, dropLast }, disabled, onRectangle }: ToolsProps) {
  return (
    <div class="zone-tools">
      {corners === null ? (
        <>
          <button type="button" class="primary" disabled={disabled} onClick={begin}>
            Draw a {noun}
          </button>
          <button type="button" disabled={disabled} onClick={onRectangle}>
            Add a rectangle
          </button>
        </>
      ) : (
        <>
          <button type="button" class="primary" disabled={corners.length < MIN_POINTS} onClick={close}>
            Close the {noun}
          </button>
          <button type="button" disabled={corners.length === 0} onClick={dropLast}>
            Undo the last point
          </button>
          <button type="button" onClick={stop}>
            Cancel
          </button>
        </>
      )}
    </div>
  );
}

interface DrawnProps {
  zone: Zone;
  surface: Surface;
  chosen: boolean;
  onChoose: () => void;
}

function DrawnZone({ zone, surface, chosen, onChoose }: DrawnProps) {
  return (
    <g class={chosen ? "zone chosen" : "zone"}>
      <polygon points={drawnPoints(zone.polygon, surface)} onPointerDown={onChoose}>
        <title>{zone.name}</title>
      </polygon>
      <text
        x={Math.min(...zone.polygon.map((p) => p[0])) * WIDE + 8 * surface.unit}
        y={Math.min(...zone.polygon.map((p) => p[1])) * surface.high + 20 * surface.unit}
        font-size={15 * surface.unit}
      >
        {zone.name}
      </text>
    </g>
  );
}

function ShapeButton({ name, onClick }: { name: string; onClick: () => void }) {
  return (
    <button type="button" aria-label={`Change the shape of ${name}`} onClick={onClick}>
      Shape
    </button>
  );
}
