/** Some of several names: a closed box that says what is chosen, and opens to check marks. None chosen: all. */

interface Props {
  label: string;
  /** The name of choosing none. */
  all: string;
  options: readonly (readonly [string, string])[];
  chosen: readonly string[];
  onChange: (chosen: string[]) => void;
}

export function Several({ label, all, options, chosen, onChange }: Props) {
  const named = (id: string): string => options.find(([one]) => one === id)?.[1] ?? id;
  const shown = chosen.length === 0 ? all : chosen.length <= 2 ? chosen.map(named).join(", ") : `${chosen.length} of ${options.length}`;
  return (
    <details class="several">
      <summary>
        <span>{label}</span> <strong>{shown}</strong>
      </summary>
      <fieldset>
        <legend class="hidden">{label}</legend>
        {options.length === 0 && <p class="quiet">none yet</p>}
        {options.map(([id, name]) => (
          <label key={id} class="check">
            <input
              type="checkbox"
              checked={chosen.includes(id)}
              onChange={(e) => onChange(e.currentTarget.checked ? [...chosen, id] : chosen.filter((one) => one !== id))}
            />
            {name}
          </label>
        ))}
      </fieldset>
    </details>
  );
}
