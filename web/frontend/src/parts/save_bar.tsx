/** Save and undo, at the lower edge of the screen while there is something to save. */

interface Props {
  dirty: boolean;
  busy: boolean;
  /** So many settings are changed; null: not known. */
  count?: number | null;
  what?: string;
  onUndo: () => void;
}

export function SaveBar({ dirty, busy, count = null, what = "Save", onUndo }: Props) {
  return (
    <div class={dirty ? "save-bar dirty" : "save-bar"}>
      <button class="primary" type="submit" disabled={!dirty || busy}>
        {busy ? "Saving…" : what}
      </button>
      {dirty && (
        <>
          <button type="button" disabled={busy} onClick={onUndo}>
            Undo
          </button>
          {count !== null && <span class="quiet">{count === 1 ? "1 setting is" : `${count} settings are`} changed and not saved</span>}
        </>
      )}
    </div>
  );
}
