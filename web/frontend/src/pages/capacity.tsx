/** Capacity: what a change of this box would do, and how right such answers were. Nothing is changed by asking. */

import { useEffect, useState } from "preact/hooks";

import { ask } from "../api";
import { useAsked } from "../parts/asking";
import type { CapacityAnswer, Forecast } from "../parts/capacity";
import { duration, moment } from "../format";
import { Empty, ErrorBox, Loading } from "../parts/states";
import { may, seesAll, whyNot } from "../session";
import { AskForecast } from "./capacity_ask";
import { ForecastCard } from "./capacity_forecast";
import { PastForecasts } from "./capacity_past";
import type { PageProps } from "./page";
import "../styles/capacity.css";

/** Between two looks: while a forecast is being made, and else. */
const WORKING_S = 3;
const IDLE_S = 30;

export function CapacityPage({ me, known, now_s }: PageProps) {
  const [every_s, setEvery] = useState(IDLE_S);
  const asked = useAsked<CapacityAnswer>("/capacity", null, every_s);
  const busy = asked.value !== null && asked.value.working !== null;
  useEffect(() => setEvery(busy ? WORKING_S : IDLE_S), [busy]);
  const [failed, setFailed] = useState<unknown>(null);
  const [shown, setShown] = useState<number | null>(null);
  const cameras = known.overview?.cameras ?? [];
  const allowed = may(me, "operator") && seesAll(me);
  const head = (
    <div class="page-head">
      <h1>Capacity</h1>
      <p class="quiet">The effect of a change on each camera's accuracy and each served model's latency, from this box's own last windows.</p>
    </div>
  );
  if (asked.value === null) {
    return (
      <>
        {head}
        {asked.error === null ? (
          <Loading what="Loading the forecasts" />
        ) : (
          <ErrorBox what="The forecasts could not be loaded" error={asked.error} onRetry={asked.again} />
        )}
      </>
    );
  }
  const { needed, windows, working, forecasts } = asked.value;
  const begin = async (body: Record<string, unknown>): Promise<void> => {
    setFailed(null);
    try {
      await ask<CapacityAnswer>("/capacity", "POST", body);
      setShown(null);
    } catch (error) {
      setFailed(error);
    }
    asked.again();
  };
  const forecast: Forecast | undefined = forecasts.find((f) => f.id === shown) ?? forecasts[0];
  return (
    <>
      {head}
      {allowed ? (
        <AskForecast cameras={cameras} windows={windows} needed={needed} busy={working !== null} onAsk={begin} />
      ) : (
        <p class="quiet">{may(me, "operator") ? "Only users of every camera may ask for a forecast." : whyNot("operator")}</p>
      )}
      {failed !== null && <ErrorBox what="The forecast was not begun" error={failed} />}
      <Progress answer={asked.value} now_s={now_s} />
      {forecast === undefined
        ? working === null && <Empty title="No forecast yet" level={2}>Forecasts stay here, beside their results.</Empty>
        : <ForecastCard forecast={forecast} cameras={cameras} when={moment(forecast.at_utc_s)} />}
      {forecasts.length > 0 && <PastForecasts forecasts={forecasts} shown={forecast?.id ?? null} onShow={setShown} />}
    </>
  );
}

/** The forecast that is being made, or the last one where it failed. */
function Progress({ answer: { working, failed }, now_s }: { answer: CapacityAnswer; now_s: number }) {
  if (working !== null) {
    return <Loading what={`Replaying the windows with ${working.change.words ?? "a change"}, for ${duration(Math.max(0, now_s - working.since_utc_s))}`} />;
  }
  if (failed === null) return null;
  return (
    <div class="banner bad" role="alert">
      <p>
        The forecast of {failed.change.words ?? "a change"} failed: {failed.message ?? "this concerns the whole box"}
      </p>
    </div>
  );
}
