/** The choices of a field, made of their names and words. */

import type { Option } from "./schema_form";

export function optionsOf(words: Record<string, string>): Option[] {
  return Object.entries(words).map(([value, label]) => ({ value, label }));
}
