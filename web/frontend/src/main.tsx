import { render } from "preact";
import { useEffect, useState } from "preact/hooks";

import { CameraCard } from "./camera";
import { Events } from "./events";
import { Banner, Header } from "./header";
import { Live } from "./live";
import { Models } from "./models";
import { Settings } from "./settings";
import { Shares } from "./shares";
import { useAppliance, useNow, useTheme } from "./store";
import "./style.css";

const LIVE_FPS = 4;

function Page() {
  const [known, putRetraining] = useAppliance();
  const [theme, setTheme] = useTheme();
  const now_s = useNow(known.offset_s);
  const [live, setLive] = useState<Live | null>(null);
  const [connected, setConnected] = useState<boolean | null>(null);
  const [boxes, setBoxes] = useState(true);
  const [models, setModels] = useState<string | null>(null);

  useEffect(() => {
    const made = new Live(LIVE_FPS, setConnected);
    setLive(made);
    return () => made.close();
  }, []);

  const { overview } = known;
  const site = overview?.site;
  useEffect(() => {
    if (site) document.title = `${site} – Magpie`;
  }, [site]);

  const chosen = overview?.cameras.find((c) => c.id === models);
  return (
    <>
      <Header overview={overview} health={known.health} now_s={now_s} theme={theme} onTheme={setTheme} />
      <Banner
        overview={overview}
        health={known.health}
        silentSince={known.silentSince}
        liveLost={connected === false}
        now_s={now_s}
      />
      {overview === null ? (
        known.silentSince === null && (
          <main class="loading">
            <p class="quiet">Asking the appliance…</p>
          </main>
        )
      ) : (
        <main class={known.silentSince === null ? "" : "old"}>
          <section class="cameras" aria-labelledby="cameras-title">
            <div class="row">
              <h2 id="cameras-title">
                Cameras <span class="quiet">{overview.cameras.length}</span>
              </h2>
              <label class="check">
                <input type="checkbox" checked={boxes} onChange={(e) => setBoxes(e.currentTarget.checked)} /> Show boxes
              </label>
            </div>
            {overview.cameras.length === 0 ? (
              <div class="card empty">
                <h3>No camera yet</h3>
                <p>
                  Add one to the site configuration, or send its settings to <code>POST /api/v1/cameras</code>. It shows up here
                  at once.
                </p>
              </div>
            ) : (
              <div class="grid">
                {overview.cameras.map((camera, index) => (
                  <CameraCard
                    key={camera.id}
                    camera={camera}
                    index={index}
                    live={live}
                    boxes={boxes}
                    windows={known.windows}
                    onModels={() => setModels(camera.id)}
                  />
                ))}
              </div>
            )}
          </section>
          <aside>
            <Shares overview={overview} />
            {known.retraining && <Settings retraining={known.retraining} now_s={now_s} onChange={putRetraining} />}
          </aside>
          <Events events={known.events} cameras={overview.cameras} />
        </main>
      )}
      {chosen && <Models camera={chosen} onClose={() => setModels(null)} />}
    </>
  );
}

const place = document.getElementById("page");
if (place !== null) render(<Page />, place);
