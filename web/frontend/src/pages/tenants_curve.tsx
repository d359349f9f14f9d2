/** The learned curve of one tenant, performance by share, with its band: as a chart and as a table. */

import { useEffect, useState } from "preact/hooks";

import { percent } from "../format";
import { Table } from "../parts/table";
import type { Tenant, TenantCurve } from "../parts/tenants";
import { part } from "../parts/tenants";

function useWidth(): [ref: (place: HTMLDivElement | null) => void, width: number] {
  // The place is another one whenever the table is closed.
  const [place, setPlace] = useState<HTMLDivElement | null>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    if (place === null) return undefined;
    const sized = new ResizeObserver((entries) => setWidth(Math.round(entries[0]?.contentRect.width ?? 0)));
    sized.observe(place);
    return () => sized.disconnect();
  }, [place]);
  return [setPlace, width];
}

const HEIGHT = 240;
const LEFT = 46;
const RIGHT = 12;
const TOP = 12;
const BOTTOM = 34;

interface CurveProps {
  curve: TenantCurve;
  tenant: Tenant;
}

/** The curve with its band. Drawn at the width that there is, so that its words stay readable. */
export function Curve({ curve, tenant }: CurveProps) {
  const [place, width] = useWidth();
  const [asTable, setAsTable] = useState(false);
  const { points } = curve;
  if (points.length === 0) return <p class="quiet">Nothing was measured yet, so no curve is known.</p>;
  return (
    <figure class="chart-figure curve">
      <figcaption class="legend-row">
        <Legend />
        <button type="button" class="link small" aria-pressed={asTable} onClick={() => setAsTable(!asTable)}>
          {asTable ? "Show as chart" : "Show as table"}
        </button>
      </figcaption>
      {asTable ? (
        <div class="scroll" tabIndex={0} role="region" aria-label="Expected performance by share, as a table">
          <Table
            caption="Expected performance by share"
            rows={points.filter((_, n) => n % Math.max(1, Math.ceil(points.length / 20)) === 0)}
            rowKey={(p) => p.share}
            columns={[
              { key: "share", title: "Share", cell: (p) => part(p.share) },
              { key: "expected", title: "Expected", number: true, cell: (p) => percent(p.performance, 1) },
              { key: "low", title: "From", number: true, cell: (p) => percent(p.low, 1) },
              { key: "high", title: "To", number: true, cell: (p) => percent(p.high, 1) },
            ]}
          />
        </div>
      ) : (
        <div ref={place}>
          <svg width={width} height={HEIGHT} role="img" aria-label={labelOf(curve, tenant)}>
            {width > 0 && <Drawing curve={curve} tenant={tenant} width={width} />}
          </svg>
        </div>
      )}
    </figure>
  );
}

function Legend() {
  return (
    <>
      <span>
        <span class="key expected" aria-hidden="true" />
        Expected
      </span>
      <span>
        <span class="key band" aria-hidden="true" />
        Band
      </span>
      <span>
        <span class="key goal" aria-hidden="true" />
        Goal
      </span>
      <span>
        <span class="key right" aria-hidden="true" />
        Entitlement
      </span>
      <span>
        <span class="key now" aria-hidden="true" />
        Share now
      </span>
    </>
  );
}

/** The curve at the share that the tenant holds, in words. */
function labelOf({ points, goal }: TenantCurve, { share: { held } }: Tenant): string {
  const at = points.reduce((best, p) => (Math.abs(p.share - held) < Math.abs(best.share - held) ? p : best), points[0]!);
  return `Expected performance by share. At ${percent(at.share)}: ${percent(at.performance, 1)}, between ${percent(at.low, 1)} and ${percent(at.high, 1)}; goal ${percent(goal, 1)}`;
}

/** Where a value between 0 and 1 is, from the top. */
function y(value: number): number {
  return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value);
}

function Drawing({ curve, tenant, width }: CurveProps & { width: number }) {
  const { points, reports, now, last } = curve;
  const most = Math.max(...points.map((p) => p.share), tenant.share.held, now ?? 0);
  const x = (share: number): number => LEFT + ((width - LEFT - RIGHT) * share) / most;
  const line = (of: "performance" | "low" | "high", back = false): string => {
    const along = back ? [...points].reverse() : [...points];
    return along.map((p) => `${x(p.share).toFixed(1)} ${y(p[of]).toFixed(1)}`).join(" L");
  };
  const steps = width < 500 ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1];
  return (
    <>
      {[0, 0.25, 0.5, 0.75, 1].map((v) => (
        <g key={v}>
          <path class="grid" d={`M${LEFT} ${y(v)} H${width - RIGHT}`} />
          <text x={LEFT - 6} y={y(v) + 4} text-anchor="end">
            {percent(v)}
          </text>
        </g>
      ))}
      {steps.map((s) => (
        <text key={s} x={x(s * most)} y={HEIGHT - 16} text-anchor={s === 0 ? "start" : s === 1 ? "end" : "middle"}>
          {percent(s * most)}
        </text>
      ))}
      <text x={LEFT + (width - LEFT - RIGHT) / 2} y={HEIGHT - 2} text-anchor="middle">
        share of the device
      </text>
      <path class="band" d={`M${line("high")} L${line("low", true)} Z`} />
      <path class="right" d={`M${x(tenant.share.entitlement)} ${TOP} V${HEIGHT - BOTTOM}`} />
      {now !== null && <path class="now" d={`M${x(now)} ${TOP} V${HEIGHT - BOTTOM}`} />}
      <path class="goal" d={`M${LEFT} ${y(curve.goal)} H${width - RIGHT}`} />
      <path class="expected" d={`M${line("performance")}`} />
      {reports.map((r) => (
        <circle key={r.utc_s} class="report" cx={x(r.share)} cy={y(r.performance)} r={2.6} />
      ))}
      {last !== null && <circle class="last" cx={x(last.share)} cy={y(last.performance)} r={6} />}
    </>
  );
}
