/** Tables; on narrow screens each row becomes a small block with its column names. */

import type { ComponentChildren } from "preact";

export interface Column<Row> {
  key: string;
  title: string;
  cell: (row: Row) => ComponentChildren;
  /** Numbers stand to the right. */
  number?: boolean;
}

interface Props<Row> {
  /** Says what the table holds; hidden unless `showCaption`. */
  caption: string;
  columns: Column<Row>[];
  rows: Row[];
  rowKey: (row: Row) => string | number;
  rowClass?: (row: Row) => string;
  showCaption?: boolean;
  /** Shown in place of rows. */
  empty?: ComponentChildren;
}

export function Table<Row>({ caption, columns, rows, rowKey, rowClass, showCaption = false, empty }: Props<Row>) {
  const [first, ...others] = columns;
  if (first === undefined) return null;
  return (
    <table class="table">
      <caption class={showCaption ? "" : "hidden"}>{caption}</caption>
      <thead>
        <tr>
          {columns.map((c) => (
            <th key={c.key} scope="col" class={c.number ? "number" : ""}>
              {c.title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={rowKey(row)} class={rowClass?.(row) ?? ""}>
            <th scope="row" class={first.number ? "number" : ""}>
              {first.cell(row)}
            </th>
            {others.map((c) => (
              <td key={c.key} class={c.number ? "number" : ""} data-label={c.title}>
                {c.cell(row)}
              </td>
            ))}
          </tr>
        ))}
        {rows.length === 0 && (
          <tr>
            <td colSpan={columns.length} class="quiet">
              {empty ?? "None."}
            </td>
          </tr>
        )}
      </tbody>
    </table>
  );
}
