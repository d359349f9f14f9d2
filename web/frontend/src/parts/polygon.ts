/** Polygons on a picture: the same rules as the server's (it has the last word), so that one sees them while drawing. */

export type Point = [number, number];

export const MIN_POINTS = 3;
export const MAX_POINTS = 64;
const MIN_AREA = 1e-4;
const SAME = 1e-9;

/** Above 0 if a, b, c turn one way, below 0 the other, 0 on one line. */
function turn(a: Point, b: Point, c: Point): number {
  const value = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
  return Math.abs(value) < 1e-12 ? 0 : value;
}

/** Of a point on the line through a and b: whether it lies between them. */
function between(a: Point, b: Point, p: Point): boolean {
  return Math.min(a[0], b[0]) <= p[0] && p[0] <= Math.max(a[0], b[0]) && Math.min(a[1], b[1]) <= p[1] && p[1] <= Math.max(a[1], b[1]);
}

/** Whether two lines that have no corner in common share a point. */
function meet(a0: Point, a1: Point, b0: Point, b1: Point): boolean {
  const [d1, d2, d3, d4] = [turn(b0, b1, a0), turn(b0, b1, a1), turn(a0, a1, b0), turn(a0, a1, b1)];
  if (d1 * d2 < 0 && d3 * d4 < 0) return true;
  return (
    (d1 === 0 && between(b0, b1, a0)) ||
    (d2 === 0 && between(b0, b1, a1)) ||
    (d3 === 0 && between(a0, a1, b0)) ||
    (d4 === 0 && between(a0, a1, b1))
  );
}

/** Two edges at a corner that lie on each other. */
function foldsBack(start: Point, corner: Point, end: Point): boolean {
  const forward = (corner[0] - start[0]) * (end[0] - corner[0]) + (corner[1] - start[1]) * (end[1] - corner[1]);
  return turn(start, corner, end) === 0 && forward < 0;
}

/** Whether the edges of an open or closed row of points cross or touch elsewhere than at their common corners. */
export function crosses(points: Point[], closed: boolean): boolean {
  const edges = closed ? points.length : points.length - 1;
  const at = (n: number): Point => points[n % points.length] as Point;
  for (let a = 0; a < edges; a += 1) {
    for (let b = a + 1; b < edges; b += 1) {
      if (a + 1 === b) {
        if (foldsBack(at(a), at(a + 1), at(b + 1))) return true;
      } else if (closed && (b + 1) % edges === a) {
        if (foldsBack(at(b), at(b + 1), at(a + 1))) return true;
      } else if (meet(at(a), at(a + 1), at(b), at(b + 1))) return true;
    }
  }
  return false;
}

export function area(points: Point[]): number {
  let sum = 0;
  points.forEach((a, n) => {
    const b = points[(n + 1) % points.length] as Point;
    sum += a[0] * b[1] - b[0] * a[1];
  });
  return Math.abs(sum) / 2;
}

/** The fault of a closed polygon, in words; null: none. */
export function wrong(points: Point[]): string | null {
  if (points.length < MIN_POINTS) return `At least ${MIN_POINTS} points make a zone.`;
  if (points.length > MAX_POINTS) return `At most ${MAX_POINTS} points make a zone.`;
  if (points.some((p) => p.some((v) => !(v >= 0 && v <= 1)))) return "Points lie inside the picture: 0 to 100 %.";
  for (let n = 0; n < points.length; n += 1) {
    const [a, b] = [points[n] as Point, points[(n + 1) % points.length] as Point];
    if (Math.hypot(a[0] - b[0], a[1] - b[1]) < SAME) return `Points ${n + 1} and ${((n + 1) % points.length) + 1} are the same.`;
  }
  if (crosses(points, true)) return "The edges of a zone may not cross or touch.";
  return area(points) < MIN_AREA ? "This zone is too small to be meant." : null;
}

/** Inside the picture, and no finer than a hand can point. */
export function placed(x: number, y: number): Point {
  const one = (v: number): number => Math.round(10_000 * Math.min(1, Math.max(0, v))) / 10_000;
  return [one(x), one(y)];
}
