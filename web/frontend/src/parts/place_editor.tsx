/** The common parts of drawing zones, masks and lines on a camera's picture: the picture, corners, the list of places. */

import type { ComponentChildren, RefObject, SVGAttributes } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import type { Problem } from "../api";
import { Icon } from "./icon";
import type { Point } from "./polygon";
import { placed } from "./polygon";
import { Choices } from "./schema_form";

export interface Place {
  name: string;
  /** Empty: all; a mask is of none. */
  classes: string[];
}

export type Noun = "zone" | "mask" | "line";

export interface EditorProps<P> {
  /** Address of a picture of the camera; null: none is to be had. */
  picture: string | null;
  /** Width over height of the picture. */
  ratio: number;
  places: P[];
  /** The classes that the camera tells apart. */
  classes: string[];
  problems: Problem[];
  disabled?: boolean;
  onChange: (places: P[]) => void;
}

/** The picture's width in the units of the drawing. */
export const WIDE = 1000;
const STEP = 0.005;
const BIG_STEP = 0.05;

export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export function freeName(places: readonly Place[], noun: Noun): string {
  let n = 1;
  while (places.some((p) => p.name === `${noun}-${n}`)) n += 1;
  return `${noun}-${n}`;
}

/** The places with one of them changed. */
export function changed<P extends Place>(places: P[], n: number, part: Partial<P> | Partial<Place>): P[] {
  return places.map((p, k) => (k === n ? { ...p, ...part } : p));
}

/** The point that an arrow key leads to, ten times as far with Shift; null: it is another key. */
export function stepped(event: KeyboardEvent, from: Point): Point | null {
  const step = event.shiftKey ? BIG_STEP : STEP;
  const by = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] }[event.key];
  if (by === undefined) return null;
  event.preventDefault();
  return placed(from[0] + (by[0] ?? 0), from[1] + (by[1] ?? 0));
}

/** Listens to the keys of the whole page while something is drawn. */
export function useKeysWhile(drawing: boolean, onKey: (event: KeyboardEvent) => void): void {
  useEffect(() => {
    if (!drawing) return undefined;
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  });
}

/** The drawing over the picture. */
export interface Surface {
  svg: RefObject<SVGSVGElement | null>;
  /** Its height, WIDE being its width. */
  high: number;
  /** A pixel of the screen: corners are grasped however small the picture is shown. */
  unit: number;
  where: (event: MouseEvent) => Point;
  /** Pixels of the screen between two points. */
  apart: (a: Point, b: Point) => number;
  /** The pointer's moves go to the drawing until it is released. */
  grasp: (event: PointerEvent) => void;
}

/** Points of the picture as SVG has them. */
export function drawnPoints(points: Point[], { high }: Surface): string {
  return points.map(([x, y]) => `${x * WIDE},${y * high}`).join(" ");
}

export function useSurface(ratio: number): Surface {
  const svg = useRef<SVGSVGElement>(null);
  const [unit, setUnit] = useState(1);
  const high = WIDE / ratio;
  useEffect(() => {
    if (svg.current === null) return undefined;
    const observer = new ResizeObserver(([entry]) => {
      if (entry !== undefined && entry.contentRect.width > 0) setUnit(WIDE / entry.contentRect.width);
    });
    observer.observe(svg.current);
    return () => observer.disconnect();
  }, []);
  return {
    svg,
    high,
    unit,
    where: (event) => {
      const box = svg.current?.getBoundingClientRect();
      if (box === undefined || box.width === 0) return [0, 0];
      return placed((event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
    },
    apart: (a, b) => Math.hypot((a[0] - b[0]) * WIDE, (a[1] - b[1]) * high) / unit,
    grasp: (event) => {
      event.stopPropagation();
      svg.current?.setPointerCapture(event.pointerId);
    },
  };
}

interface PictureProps extends Pick<SVGAttributes<SVGSVGElement>, "onPointerDown" | "onPointerMove" | "onPointerUp" | "onPointerCancel" | "onPointerLeave"> {
  picture: string | null;
  ratio: number;
  noun: Noun;
  surface: Surface;
  drawing: boolean;
  /** The drawing. */
  children: ComponentChildren;
}

export function PlacePicture({ picture, ratio, noun, surface, drawing, children, ...pointer }: PictureProps) {
  const [broken, setBroken] = useState(false);
  useEffect(() => setBroken(false), [picture]);
  return (
    <div class={drawing ? "zone-picture drawing" : "zone-picture"}>
      {picture !== null && !broken ? (
        <img src={picture} alt="" onError={() => setBroken(true)} draggable={false} width={WIDE} height={Math.round(surface.high)} />
      ) : (
        <div class="zone-blank" style={{ aspectRatio: String(ratio) }}>
          <p>No picture of this camera now. {capital(noun)}s can be set all the same.</p>
        </div>
      )}
      <svg ref={surface.svg} viewBox={`0 0 ${WIDE} ${surface.high}`} role="group" aria-label={`${capital(noun)}s on the picture`} {...pointer}>
        {children}
      </svg>
    </div>
  );
}

/** Below the picture: an answer to the last change, else a hint. */
export function PlaceStatus({ said, hint }: { said: string; hint: string }) {
  return (
    <p class={said ? "problem zone-said" : "quiet zone-said"} role="status">
      {said || hint}
    </p>
  );
}

interface CornerProps {
  at: Point;
  surface: Surface;
  label: string;
  onKeyDown: (event: KeyboardEvent) => void;
  onGrasp: () => void;
}

/** A point that is dragged, or moved by keys. */
export function Corner({ at, surface, label, onKeyDown, onGrasp }: CornerProps) {
  return (
    <circle
      class="corner"
      cx={at[0] * WIDE}
      cy={at[1] * surface.high}
      r={10 * surface.unit}
      tabindex={0}
      role="button"
      aria-label={label}
      onKeyDown={onKeyDown}
      onPointerDown={(event) => {
        surface.grasp(event);
        onGrasp();
      }}
    />
  );
}

interface CardsProps<P extends Place> {
  noun: Noun;
  places: P[];
  /** The chosen one. */
  at: number;
  /** Offered for the chosen one; null: it is of no class. */
  classes: string[] | null;
  problems: Problem[];
  disabled: boolean;
  onChoose: (n: number) => void;
  onChange: (places: P[]) => void;
  /** Between the name and the button that removes it. */
  buttons: (place: P, n: number) => ComponentChildren;
  /** Below the classes of the chosen one. */
  more?: (place: P) => ComponentChildren;
  /** Shown where there is no place. */
  children: ComponentChildren;
}

/** A card for each place: its name, its problems, and of the chosen one its classes. */
export function PlaceCards<P extends Place>({ noun, places, at, classes, problems, disabled, onChoose, onChange, buttons, more, children }: CardsProps<P>) {
  const of = (path: string): Problem[] => problems.filter((p) => p.path === path || p.path.startsWith(`${path}.`) || p.path.startsWith(`${path}[`));
  return (
    <div class="zone-list">
      {places.length === 0 && <p class="quiet">{children}</p>}
      {places.map((place, n) => (
        <section key={n} class={n === at ? "zone-card chosen" : "zone-card"} aria-label={`${capital(noun)} ${place.name}`}>
          <div class="zone-head">
            <label>
              Name{" "}
              <input
                type="text"
                value={place.name}
                disabled={disabled}
                maxLength={63}
                autocapitalize="none"
                spellcheck={false}
                aria-invalid={of(`${noun}s[${n}].name`).length > 0}
                onFocus={() => onChoose(n)}
                onInput={(e) => onChange(changed(places, n, { name: e.currentTarget.value }))}
              />
            </label>
            {buttons(place, n)}
            <button
              type="button"
              class="bare"
              disabled={disabled}
              aria-label={`Remove ${noun} ${place.name}`}
              onClick={() => {
                onChange(places.filter((_, k) => k !== n));
                onChoose(Math.max(0, n < at ? at - 1 : at));
              }}
            >
              <Icon name="close" />
            </button>
          </div>
          {of(`${noun}s[${n}]`).map((p) => (
            <p key={p.path + p.allowed} class="problem" role="alert">
              {p.path.replace(`${noun}s[${n}].`, "")}: allowed: {p.allowed}
            </p>
          ))}
          {n === at && classes !== null && (
            <Choices
              label="Only objects of"
              path={`${noun}s[${n}].classes`}
              problems={[]}
              hint="None chosen: all."
              options={classes.map((c) => ({ value: c, label: c }))}
              value={place.classes}
              disabled={disabled}
              onChange={(value) => onChange(changed(places, n, { classes: value }))}
            />
          )}
          {n === at && more?.(place)}
        </section>
      ))}
    </div>
  );
}
