/** Objects from zone to zone: a row for the zone that they came from, a column for the one that they went to. */

import type { CountAnswer } from "../answers";

interface TurningProps {
  movements: readonly CountAnswer[];
  /** A week before, in words. */
  earlier: (row: CountAnswer) => string;
  corrected: (row: CountAnswer) => string;
}

export function TurningMatrix({ movements, earlier, corrected }: TurningProps) {
  const zones = [...new Set(movements.flatMap((m) => [m.name, m.way]))].sort();
  const from = zones.filter((z) => movements.some((m) => m.name === z));
  const to = zones.filter((z) => movements.some((m) => m.way === z));
  const at = (a: string, b: string): CountAnswer[] => movements.filter((m) => m.name === a && m.way === b);
  return (
    <section class="card" aria-labelledby="counts-turning">
      <h2 id="counts-turning">From zone to zone</h2>
      <p class="quiet small">Each object that went from one zone to another, as counted; below it by class, corrected, with the 90 % interval.</p>
      <div class="counts-turning" role="region" aria-labelledby="counts-turning" tabIndex={0}>
        <table>
          <caption class="hidden">Movements: from the zone of the row to the zone of the column</caption>
          <thead>
            <tr>
              <th scope="col">From \ to</th>
              {to.map((z) => (
                <th key={z} scope="col">
                  {z}
                </th>
              ))}
              <th scope="col">all</th>
            </tr>
          </thead>
          <tbody>
            {from.map((a) => (
              <tr key={a}>
                <th scope="row">{a}</th>
                {to.map((b) => (
                  <td key={b}>{at(a, b).length > 0 ? <Cell rows={at(a, b)} earlier={earlier} corrected={corrected} /> : <span class="quiet">{a === b ? "" : "0"}</span>}</td>
                ))}
                <td>
                  <strong>{sum(movements.filter((m) => m.name === a))}</strong>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Cell({ rows, earlier, corrected }: { rows: readonly CountAnswer[] } & Pick<TurningProps, "earlier" | "corrected">) {
  return (
    <>
      <strong>{sum(rows)}</strong>
      {rows.map((r) => (
        <span key={r.class} class="turning-class" title={`A week before: ${earlier(r)}`}>
          {r.class}: {corrected(r)}
        </span>
      ))}
    </>
  );
}

function sum(rows: readonly CountAnswer[]): number {
  return rows.reduce((total, r) => total + r.objects, 0);
}
