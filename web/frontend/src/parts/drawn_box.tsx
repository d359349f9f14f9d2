/** Boxes of the model and of the teacher, drawn over a picture, and the legend of both. */

type Corners = readonly [left: number, top: number, right: number, bottom: number];

interface BoxProps {
  box: Corners;
  /** Its owner: "student", "teacher". */
  of?: string;
  /** The picture's size in the units of the drawing. */
  width?: number;
  height?: number;
}

/** Two outlines, one under the other: it is seen on light and on dark streets. */
export function DrawnBox({ box: [left, top, right, bottom], of, width = 1, height = 1 }: BoxProps) {
  const place = { x: left * width, y: top * height, width: Math.abs(right - left) * width, height: Math.abs(bottom - top) * height };
  return (
    <g class={of}>
      <rect class="under" {...place} />
      <rect {...place} />
    </g>
  );
}

export function BoxLegend() {
  return (
    <p class="legend-row">
      <span>
        <span class="box-key student" aria-hidden="true" /> solid blue: the camera's model
      </span>
      <span>
        <span class="box-key teacher" aria-hidden="true" /> dashed yellow: the teacher
      </span>
    </p>
  );
}
