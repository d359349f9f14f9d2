/** The colour by which a camera is known in charts and lists; `index` is its place in the overview. */
export function cameraColour(index: number): string {
  return `var(--camera-${index % 8})`;
}
