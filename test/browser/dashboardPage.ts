import type { Panel, Series } from '../support/prometheus.ts';

// Draws the dashboard in observe/grafana with what Prometheus returns for its queries, as HTML with an SVG for each
// panel: the same panels, places, units, colours of states and legends, but not Grafana's own rendering.

/** A series of a panel; its name is from the legend of its query. */
type Line = { name: string; points: [seconds: number, value: number][] };
/** The unit of a panel: what 1 is divided by, from the largest, with the text after the number. */
type Scale = readonly (readonly [divisor: number, suffix: string])[];

const COLORS = ['#73bf69', '#f2cc0c', '#5794f2', '#ff9830', '#f2495c', '#b877d9', '#8ab8ff', '#fa6400'];
const STATE_COLORS: Record<string, string> = { green: '#3d8b43', orange: '#c7711b', red: '#c4162a' };
const [COLUMN_PX, ROW_PX] = [52, 22];
const AXIS_PX = 58;

const SCALES: Record<string, Scale> = {
  s: [
    [1, ' s'],
    [1e-3, ' ms'],
    [1e-6, ' µs'],
  ],
  bytes: [
    [2 ** 30, ' GiB'],
    [2 ** 20, ' MiB'],
    [2 ** 10, ' KiB'],
    [1, ' B'],
  ],
  percentunit: [[0.01, ' %']],
  reqps: [[1, ' req/s']],
  ops: [[1, ' ops/s']],
  none: [
    [1e6, ' M'],
    [1e3, ' k'],
    [1, ''],
  ],
};

/** The page; `seriesOf` returns the series of a query between two times. */
export async function dashboardPage(
  { title, panels }: { title: string; panels: Panel[] },
  [start, end]: [number, number],
  seriesOf: (expr: string) => Promise<Series[]>,
): Promise<string> {
  const drawn = await Promise.all(
    panels.map(async (panel) => {
      const lines: Line[] = [];
      for (const { expr, legendFormat } of panel.targets ?? [])
        for (const { metric, values } of await seriesOf(expr)) {
          const points = values.map(([time, value]): [number, number] => [time, Number(value)]);
          lines.push({
            name: legendFormat.replace(/\{\{(\w+)\}\}/g, (_, label) => metric[label] ?? ''),
            points: points.filter(([, value]) => Number.isFinite(value)),
          });
        }
      return draw(panel, lines, [start, end]);
    }),
  );
  const height = Math.max(...panels.map(({ gridPos: { y, h } }) => y + h)) * ROW_PX;
  return `<!doctype html><meta charset="utf-8"><title>${escapeHtml(title)}</title><style>
body { margin: 0; background: #111217; color: #ccccdc; font: 12px system-ui, "DejaVu Sans", sans-serif }
h1 { margin: 0; padding: 10px 14px 6px; font-size: 18px; font-weight: 500 }
main { position: relative; width: ${24 * COLUMN_PX}px; height: ${height}px; margin: 0 8px 8px }
section { position: absolute; box-sizing: border-box; padding: 3px; display: flex }
.row { align-items: center; font-size: 14px; font-weight: 500 }
.panel { flex: 1; min-width: 0; display: flex; flex-direction: column; background: #181b1f; border: 1px solid #25282d; border-radius: 2px }
h2 { margin: 0; padding: 5px 8px; font-size: 12px; font-weight: 500; white-space: nowrap; overflow: hidden; text-overflow: ellipsis }
.legend { display: flex; flex-wrap: wrap; gap: 1px 12px; padding: 2px 8px 5px; font-size: 11px }
.legend i { display: inline-block; width: 12px; height: 3px; margin-right: 5px; vertical-align: middle }
.states { flex: 1; display: flex; gap: 3px; padding: 0 5px 5px }
.state { flex: 1; display: flex; flex-direction: column; align-items: center; justify-content: center; border-radius: 2px; color: #fff; font-size: 20px }
.state small { font-size: 11px }
svg text { fill: #9a9aa8; font-size: 10px }
</style><h1>${escapeHtml(title)}</h1><main>${drawn.join('\n')}</main>`;
}

function draw({ type, title, gridPos, ...panel }: Panel, lines: Line[], times: [number, number]): string {
  const { x, y, w, h } = gridPos;
  const [width, height] = [w * COLUMN_PX, h * ROW_PX];
  const style = `left:${x * COLUMN_PX}px;top:${y * ROW_PX}px;width:${width}px;height:${height}px`;
  if (type === 'row') return `<section class="row" style="${style}">⌄ ${escapeHtml(title)}</section>`;
  const defaults = panel.fieldConfig?.defaults ?? { unit: 'none' };
  const legendRows = Math.ceil(
    lines.reduce((sum, { name }) => sum + 40 + 6.5 * name.length, 0) / (width - 24),
  );
  const plot: [number, number] = [width - 8, height - 40 - 15 * legendRows];
  const content =
    type === 'stat'
      ? states(lines, defaults, times)
      : chart(lines, defaults.unit, times, plot) + legend(lines);
  return `<section style="${style}"><div class="panel"><h2>${escapeHtml(title)}</h2>${content}</div></section>`;
}

type Defaults = NonNullable<Panel['fieldConfig']>['defaults'];

/** The last value of each series, on the colour of its state. */
function states(lines: Line[], { unit, thresholds, mappings }: Defaults, [, end]: [number, number]): string {
  const boxes = lines.map(({ name, points }) => {
    const value = points.at(-1)?.[1] ?? Number.NaN;
    const step = thresholds?.steps.findLast((one) => value >= (one.value ?? Number.NEGATIVE_INFINITY));
    const mapped = mappings?.[0]?.options[String(value)]?.text;
    const ago = unit === 'dateTimeFromNow' ? `${Math.round(end - value / 1_000)} seconds ago` : undefined;
    const shown = mapped ?? ago ?? format(value, unit, value);
    const label = lines.length > 1 ? `<small>${escapeHtml(name)}</small>` : '';
    return `<div class="state" style="background:${STATE_COLORS[step?.color ?? ''] ?? '#3d8b43'}">${label}${shown}</div>`;
  });
  return `<div class="states">${boxes.join('')}</div>`;
}

function chart(
  lines: Line[],
  unit: string,
  [start, end]: [number, number],
  [width, height]: [number, number],
): string {
  const most = Math.max(0, ...lines.flatMap(({ points }) => points.map(([, value]) => value)));
  const step = niceStep(most / 3, unit);
  const top = step * Math.max(1, Math.ceil(most / step - 1e-9));
  const [right, bottom] = [width - 16, height - 16];
  const atX = (time: number): number => AXIS_PX + ((time - start) / (end - start)) * (right - AXIS_PX);
  const atY = (value: number): number => bottom - (value / top) * (bottom - 6);
  const grid = Array.from({ length: Math.round(top / step) + 1 }, (_, i) => {
    const at = atY(i * step).toFixed(1);
    return `<path d="M${AXIS_PX} ${at}H${right}" stroke="#2c2f36"/><text x="${AXIS_PX - 6}" y="${at}" dy="3" text-anchor="end">${format(i * step, unit, top)}</text>`;
  });
  const times = Array.from({ length: Math.floor((end - start) / 10) + 1 }, (_, i) => start + 10 * i);
  const axis = times.map(
    (time) => `<text x="${atX(time)}" y="${height - 2}" text-anchor="middle">${time - start} s</text>`,
  );
  const drawn = lines.map(({ points }, i) => {
    const places = points.map(([time, value]) => `${atX(time).toFixed(1)} ${atY(value).toFixed(1)}`);
    return `<polyline points="${places}" fill="none" stroke="${COLORS[i % COLORS.length]}" stroke-width="1.3"/>`;
  });
  return `<svg width="${width}" height="${height}">${[...grid, ...axis, ...drawn].join('')}</svg>`;
}

function legend(lines: Line[]): string {
  const entries = lines.map(
    ({ name }, i) =>
      `<span><i style="background:${COLORS[i % COLORS.length]}"></i>${escapeHtml(name)}</span>`,
  );
  return `<div class="legend">${entries.join('')}</div>`;
}

/** The part of the unit in which a value is shown. */
function partOf(unit: string, value: number): readonly [number, string] {
  const scale = SCALES[unit] ?? (SCALES.none as Scale);
  return scale.find(([divisor]) => value >= divisor) ?? (scale.at(-1) as readonly [number, string]);
}

/** 1, 2 or 5 times a power of ten, in the part of the unit. */
function niceStep(atLeast: number, unit: string): number {
  if (atLeast === 0) return 1;
  const [divisor] = partOf(unit, atLeast * 3);
  const power = 10 ** Math.floor(Math.log10(atLeast / divisor));
  return divisor * power * ([1, 2, 5].find((n) => n * power >= atLeast / divisor) ?? 10);
}

/** A value in the part of the unit in which `largest` is shown. */
function format(value: number, unit: string, largest: number): string {
  const [divisor, suffix] = partOf(unit, largest);
  return `${Number((value / divisor).toPrecision(3))}${suffix}`;
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
