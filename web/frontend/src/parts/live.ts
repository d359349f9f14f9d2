/** Live pictures: one socket for every camera, decoded off the main path, drawn on the canvases that asked. */

import type { PictureHeader } from "../answers";
import { liveUrl } from "../api";

export interface Picture {
  header: PictureHeader;
  bitmap: ImageBitmap;
}

type Listener = (picture: Picture) => void;

interface Watcher {
  listener: Listener;
  fps: number;
}

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 8000;
/** All cameras together, pictures a second at most: a wall of sixteen asks little of each. */
const BUDGET_FPS = 20;
/** Tiles come into view one by one while one scrolls: ask once for all of them. */
const ASK_AFTER_MS = 120;
/** Between two pages there is nothing in view for a moment: that is no reason to hang up. */
const LEAVE_AFTER_MS = 1500;

/** Takes one message apart: 2 bytes length, JSON header, JPEG. */
export function parse(message: ArrayBuffer): { header: PictureHeader; jpeg: Uint8Array<ArrayBuffer> } {
  const length = new DataView(message).getUint16(0);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(message, 2, length))) as PictureHeader;
  return { header, jpeg: new Uint8Array(message, 2 + length) };
}

/** Only what is listened to is asked for, so that the appliance encodes only pictures that are shown. */
export class Live {
  private socket: WebSocket | null = null;
  private wait = FIRST_WAIT_MS;
  private timer = 0;
  private asking = 0;
  private asked = "";
  private readonly watchers = new Map<string, Watcher>();
  private readonly decoding = new Set<string>();
  private readonly following = new Map<string, ArrayBuffer>();

  constructor(private readonly onState: (connected: boolean) => void) {
    document.addEventListener("visibilitychange", this.adapt);
  }

  /** Hand the camera's pictures to `listener`, at most `fps` a second; returns what ends it. */
  listen(camera: string, listener: Listener, fps = 5): () => void {
    const watcher = { listener, fps };
    this.watchers.set(camera, watcher);
    this.soon();
    return () => {
      if (this.watchers.get(camera) === watcher) this.watchers.delete(camera);
      this.soon();
    };
  }

  close(): void {
    document.removeEventListener("visibilitychange", this.adapt);
    clearTimeout(this.asking);
    this.watchers.clear();
    this.disconnect();
  }

  private soon(): void {
    clearTimeout(this.asking);
    this.asking = window.setTimeout(this.adapt, this.watchers.size === 0 ? LEAVE_AFTER_MS : ASK_AFTER_MS);
  }

  /** Connect, ask anew, or leave: a hidden page, or one without pictures in view, watches nothing. */
  private readonly adapt = (): void => {
    if (document.hidden || this.watchers.size === 0) this.disconnect();
    else if (this.socket === null) this.connect();
    else if (this.socket.readyState === WebSocket.OPEN) this.request(this.socket);
  };

  private request(socket: WebSocket): void {
    const cameras = [...this.watchers.keys()].sort();
    const most = Math.max(...[...this.watchers.values()].map((w) => w.fps));
    const fps = Math.min(most, Math.max(1, BUDGET_FPS / cameras.length));
    const text = JSON.stringify({ cameras, fps });
    if (text === this.asked) return;
    this.asked = text;
    socket.send(text);
  }

  private disconnect(): void {
    clearTimeout(this.timer);
    const socket = this.socket;
    this.socket = null;
    this.asked = "";
    if (socket === null) return;
    if (socket.readyState === WebSocket.CONNECTING) socket.onopen = () => socket.close();
    else socket.close();
  }

  private connect(): void {
    clearTimeout(this.timer);
    const socket = new WebSocket(liveUrl());
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    this.asked = "";
    socket.onopen = () => {
      this.wait = FIRST_WAIT_MS;
      this.onState(true);
      this.adapt();
    };
    socket.onmessage = (event: MessageEvent<ArrayBuffer | string>) => {
      if (typeof event.data !== "string") this.take(event.data);
    };
    socket.onclose = () => {
      if (this.socket !== socket) return;
      this.socket = null;
      this.onState(false);
      this.timer = window.setTimeout(this.adapt, this.wait);
      this.wait = Math.min(LONGEST_WAIT_MS, this.wait * 2);
    };
  }

  private take(message: ArrayBuffer): void {
    const { header } = parse(message);
    if (this.decoding.has(header.camera)) {
      this.following.set(header.camera, message); // only the newest waits: a slow page shows fewer, not later pictures
      return;
    }
    void this.decode(header.camera, message);
  }

  private async decode(camera: string, message: ArrayBuffer): Promise<void> {
    this.decoding.add(camera);
    try {
      const { header, jpeg } = parse(message);
      const bitmap = await createImageBitmap(new Blob([jpeg], { type: "image/jpeg" }));
      this.watchers.get(camera)?.listener({ header, bitmap });
      bitmap.close();
    } catch {
      // A picture that the browser cannot decode is left out; the next one comes in a moment.
    } finally {
      this.decoding.delete(camera);
      const next = this.following.get(camera);
      if (next !== undefined) {
        this.following.delete(camera);
        void this.decode(camera, next);
      }
    }
  }
}

/** Class colours that are told apart on a street picture; the label's text is dark on all of them. */
const COLOURS = ["#3ddbb8", "#ffc145", "#7cc6ff", "#ff9ec4", "#b6f05a", "#ff9f68", "#c9b3ff", "#f5f07a"];

export function classColour(index: number): string {
  return COLOURS[index % COLOURS.length] ?? "#ffffff";
}

/** Pixels across, at most. */
const LARGEST = 1920;

/** Draw a picture and, if wanted, the boxes of the answer that belongs to it. */
export function draw(canvas: HTMLCanvasElement, { header, bitmap }: Picture, boxes: boolean): void {
  // As sharp as the screen shows it: lines and names would blur with a small picture.
  const shown = Math.min(LARGEST, Math.round(canvas.clientWidth * devicePixelRatio));
  const width = Math.max(bitmap.width, shown);
  const height = Math.round((bitmap.height * width) / bitmap.width);
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  const context = canvas.getContext("2d");
  if (context === null) return;
  context.drawImage(bitmap, 0, 0, width, height);
  if (!boxes) return;
  const scale = Math.max(0.6, width / Math.max(1, canvas.clientWidth));
  const size = Math.round(12 * scale);
  context.font = `600 ${size}px system-ui, sans-serif`;
  context.textBaseline = "middle";
  header.boxes.forEach((box, n) => {
    const label = header.labels[n] ?? 0;
    const colour = classColour(label);
    const x = box[0] * width;
    const y = box[1] * height;
    const wide = (box[2] - box[0]) * width;
    const high = (box[3] - box[1]) * height;
    context.lineWidth = 2 * scale;
    context.strokeStyle = colour;
    context.setLineDash(header.stale ? [6 * scale, 4 * scale] : []);
    context.strokeRect(x, y, wide, high);
    context.setLineDash([]);
    const text = header.classes[label] ?? `class ${label}`;
    const textWidth = context.measureText(text).width + 8 * scale;
    const left = Math.min(Math.max(0, x - scale), Math.max(0, width - textWidth));
    const top = y > size * 1.5 ? y - size * 1.45 : y + scale;
    context.fillStyle = colour;
    context.fillRect(left, top, textWidth, size * 1.45);
    context.fillStyle = "#08151a";
    context.fillText(text, left + 4 * scale, top + size * 0.76);
  });
}

/** The answer in words, for those who do not see the picture: "2 car, 1 person". */
export function inWords(header: PictureHeader): string {
  const counts = new Map<string, number>();
  for (const label of header.labels) {
    const name = header.classes[label] ?? `class ${label}`;
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return [...counts].map(([name, n]) => `${n} ${name}`).join(", ") || "nothing found";
}
