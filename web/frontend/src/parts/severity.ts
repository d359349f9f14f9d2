/** How bad an alarm is, in words and colour. */

import type { Alarm } from "../api";
import type { Tone } from "./badge";

export const SEVERITIES: Record<Alarm["severity"], [string, Tone]> = {
  critical: ["Critical", "bad"],
  warning: ["Warning", "wait"],
  info: ["Note", "info"],
};
