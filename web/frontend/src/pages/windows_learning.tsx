/** The learning that this box can do in a window, which window length it would choose, and how far promises were kept. */

import type { Learning } from "../api";
import { duration, percent } from "../format";
import { useAsked } from "../parts/asking";
import { ErrorBox, Loading } from "../parts/states";

/** Points with one digit, with a sign. */
function signed(value: number): string {
  const points = 100 * value;
  return `${points < 0 ? "−" : "+"}${Math.abs(points).toFixed(1)}`;
}

export function WindowLearning({ window }: { window: number | undefined }) {
  const { value, error, again } = useAsked<Learning>("/retraining/learning", window);
  if (value === null) return error === null ? <Loading /> : <ErrorBox what="What this box can learn could not be loaded" error={error} onRetry={again} />;
  const { budget, choice } = value;
  return (
    <section class="card" aria-labelledby="learning-title">
      <div class="card-head">
        <h2 id="learning-title">What this box can learn</h2>
      </div>
      <p>
        Per camera and window of {duration(value.window_s)}: <strong>{budget.labels} labels</strong>,{" "}
        <strong>
          {budget.trials} {budget.trials === 1 ? "trial" : "trials"}
        </strong>{" "}
        of ways to retrain, and <strong>{budget.retraining_s.toFixed(1)} device seconds</strong> of retraining. Labelling takes{" "}
        {percent(value.golden_share, 1)} of the device; labels and profiles are ready after about {duration(budget.ready_s)}.
      </p>
      {!budget.known && <p class="quiet">The costs are a first guess: they are measured in the first windows.</p>}
      {budget.late && <p role="status">That is not in time here: a longer window, or more of the machine, would help.</p>}
      <p>
        It would choose windows of <strong>{duration(choice.window_s)}</strong>: {choice.reason}.
      </p>
      {value.camera_windows > 0 && (
        <p class="quiet">
          Plans promised {signed(value.bias)} points against what was realised (mean error {(100 * value.mean_error).toFixed(1)} points over{" "}
          {value.camera_windows} windows of cameras). Retrained without a trial: {value.unprofiled_retrainings}; labels that came late and were
          used: {value.late_labels_used}.
        </p>
      )}
    </section>
  );
}
