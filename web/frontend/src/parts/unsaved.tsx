/** Asks before a page is left on which something was typed and not saved. */

import { useEffect, useRef, useState } from "preact/hooks";

import { parseRoute } from "../router";
import { Confirm } from "./dialog";

/** The part of an address that says which form is shown. */
function place(url: string): string {
  const { page, rest, query } = parseRoute(new URL(url).hash);
  return JSON.stringify([page, rest, query.get("tab")]);
}

export function Unsaved({ when }: { when: boolean }) {
  const [wanted, setWanted] = useState<string | null>(null);
  const unsaved = useRef(when);
  unsaved.current = when;
  const leaving = useRef(false);

  useEffect(() => {
    const go = (event: HashChangeEvent): void => {
      if (!unsaved.current || leaving.current || place(event.oldURL) === place(event.newURL)) return;
      // Before the page hears of it: nothing that was typed is taken away until somebody says so.
      event.stopImmediatePropagation();
      history.replaceState(null, "", event.oldURL);
      setWanted(new URL(event.newURL).hash);
    };
    const close = (event: BeforeUnloadEvent): void => {
      if (unsaved.current) event.preventDefault();
    };
    addEventListener("hashchange", go, true);
    addEventListener("beforeunload", close);
    return () => {
      removeEventListener("hashchange", go, true);
      removeEventListener("beforeunload", close);
    };
  }, []);

  if (wanted === null) return null;
  return (
    <Confirm
      title="Leave without saving?"
      action="Leave"
      danger
      onClose={() => setWanted(null)}
      onConfirm={async () => {
        leaving.current = true;
        location.hash = wanted;
      }}
    >
      <p>What you changed here is not saved yet.</p>
    </Confirm>
  );
}
