/** The pages: one line each. They are loaded when first shown. */

import type { FunctionComponent } from "preact";

import type { PageProps } from "./page";

export interface Page {
  /** In the address: "#/NAME". */
  name: string;
  /** In the navigation; pages without a title are reached from others. */
  title?: string;
  /** Which page of the navigation this one belongs to. */
  under?: string;
  load: () => Promise<FunctionComponent<PageProps>>;
}

export const PAGES: Page[] = [
  { name: "wall", title: "Cameras", load: () => import("./wall").then((m) => m.WallPage) },
  { name: "camera", under: "wall", load: () => import("./camera").then((m) => m.CameraPage) },
  { name: "find", title: "Find", load: () => import("./find").then((m) => m.FindPage) },
  { name: "day", under: "find", load: () => import("./day").then((m) => m.DayPage) },
  { name: "counts", title: "Counts", load: () => import("./counts").then((m) => m.CountsPage) },
  { name: "windows", title: "Windows", load: () => import("./windows").then((m) => m.WindowsPage) },
  { name: "capacity", under: "windows", load: () => import("./capacity").then((m) => m.CapacityPage) },
  { name: "serving", title: "Serving", load: () => import("./serving").then((m) => m.ServingPage) },
  { name: "tenants", title: "Tenants", load: () => import("./tenants").then((m) => m.TenantsPage) },
  { name: "fleet", title: "Fleet", load: () => import("./fleet").then((m) => m.FleetPage) },
  { name: "system", title: "System", load: () => import("./system").then((m) => m.SystemPage) },
  { name: "settings", title: "Settings", load: () => import("./settings").then((m) => m.SettingsPage) },
];
