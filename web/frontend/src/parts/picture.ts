/** A picture of REST as an address that an image can show. */

import { useEffect, useState } from "preact/hooks";

import { pictureUrl } from "../api";

/** A picture fetched anew whenever `when` changes; null where none is to be had. */
export function usePicture(path: string, when: string): string | null {
  const [url, setUrl] = useState<string | null>(null);
  useEffect(() => {
    let wanted = true;
    fetch(pictureUrl(path))
      .then(async (answer) => (answer.ok ? URL.createObjectURL(await answer.blob()) : null))
      .catch(() => null)
      .then((made) => {
        if (wanted) setUrl(made);
        else if (made !== null) URL.revokeObjectURL(made);
      });
    return () => {
      wanted = false;
    };
  }, [path, when]);
  useEffect(() => () => void (url !== null && URL.revokeObjectURL(url)), [url]);
  return url;
}
