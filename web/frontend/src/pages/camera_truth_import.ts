/** Label files as the box takes them: in parts, since a request is at most 256 kB. */

export type ImportPart = { format: "coco"; document: unknown } | { format: "yolo"; files: Record<string, string> };

const MOST_BYTES = 200_000;
/** Texts of YOLO that every part needs. */
const SHARED = ["classes.txt", "complete.txt"];

interface Coco {
  /** Of our own export: the answers, which say more than the boxes. */
  magpie?: { camera?: unknown; answers?: unknown[] };
  images?: { id?: unknown }[];
  annotations?: { image_id?: unknown }[];
}

/** The parts of one COCO file, or of YOLO texts; each part has all that the box needs to read it. Throws an Error in
 * words. */
export function importParts(files: readonly (readonly [string, string])[]): ImportPart[] {
  const json = files.filter(([name]) => name.toLowerCase().endsWith(".json"));
  if (json.length > 1 || (json.length === 1 && files.length > 1)) throw new Error("choose one COCO file, or the texts of YOLO");
  const coco = json[0];
  return coco === undefined ? yoloParts(files) : cocoParts(JSON.parse(coco[1]) as Coco);
}

function cocoParts(document: Coco): ImportPart[] {
  const { images, annotations, magpie } = document;
  if (Array.isArray(magpie?.answers) && magpie.answers.length > 0) {
    return packed(magpie.answers, size, MOST_BYTES).map((answers) => ({ format: "coco", document: { magpie: { camera: magpie.camera, answers } } }));
  }
  if (!Array.isArray(images) || !Array.isArray(annotations) || size(document) <= MOST_BYTES) return [{ format: "coco", document }];
  const of = new Map<unknown, { image_id?: unknown }[]>();
  for (const one of annotations) of.set(one.image_id, [...(of.get(one.image_id) ?? []), one]);
  const rest = { ...document, images: [], annotations: [] };
  return packed(images, (image) => size(image) + size(of.get(image.id) ?? []), MOST_BYTES - size(rest)).map((some) => ({
    format: "coco",
    document: { ...rest, images: some, annotations: some.flatMap((image) => of.get(image.id) ?? []) },
  }));
}

function yoloParts(files: readonly (readonly [string, string])[]): ImportPart[] {
  const always = files.filter(([name]) => SHARED.includes(name));
  const others = files.filter(([name]) => !SHARED.includes(name));
  if (others.length === 0) return [{ format: "yolo", files: Object.fromEntries(always) }];
  return packed(others, size, MOST_BYTES - size(always)).map((some) => ({ format: "yolo", files: Object.fromEntries([...always, ...some]) }));
}

/** In their order, so many together as fit; one that is larger goes alone. */
function packed<T>(all: readonly T[], bytes: (one: T) => number, most: number): T[][] {
  const out: T[][] = [];
  let left = 0;
  for (const one of all) {
    const wanted = bytes(one);
    if (out.length === 0 || wanted > left) {
      out.push([]);
      left = most;
    }
    out[out.length - 1]?.push(one);
    left -= wanted;
  }
  return out;
}

/** Of its JSON, in bytes. */
function size(value: unknown): number {
  return new TextEncoder().encode(JSON.stringify(value)).length + 1;
}
