// Draws rates and latencies over connections as an SVG with two panels.

/** Requests per second, and latencies in milliseconds. */
export type Point = { connections: number; perSecond: number; p50: number; p99: number };
export type Series = { name: string; points: readonly Point[] };

/** Where a value is on an axis: 0 is its start, 1 its end. */
type Axis = { ticks: readonly number[]; at: (value: number) => number };

const [WIDTH, HEIGHT] = [820, 350];
const PLOT = { top: 84, width: 320, height: 210 };
const [LEFT, RIGHT] = [64, 476];
/** For readers of every colour vision (Okabe and Ito): on a light and on a dark background. */
const COLORS = ['#0072b2', '#d55e00', '#009e73', '#a0569a'];
const DARK_COLORS = ['#56b4e9', '#f0a050', '#2fc79b', '#e5a5c8'];

/** An SVG that is readable on light and dark pages. */
export function chart(series: readonly Series[]): string {
  const points = series.flatMap((one) => one.points);
  const x = logarithmic([...new Set(points.map((point) => point.connections))].sort((a, b) => a - b));
  const perSecond = linear(Math.max(...points.map((point) => point.perSecond)));
  const latency = logarithmic(powersOfTen(points.flatMap(({ p50, p99 }) => [p50, p99])));
  const lines = (y: Axis, value: (point: Point) => number, style: string): string =>
    series
      .map((one, i) => {
        const places = one.points.map((point) => [
          (x.at(point.connections) * PLOT.width).toFixed(1),
          ((1 - y.at(value(point))) * PLOT.height).toFixed(1),
        ]);
        const dots = places.map(([cx, cy]) => `<circle cx="${cx}" cy="${cy}" r="3"/>`);
        return `<g class="s${i}"><polyline class="${style}" points="${places.join(' ')}"/>${dots.join('')}</g>`;
      })
      .join('\n');
  const legend = series.map(({ name }, i) => {
    const left = LEFT + 165 * i;
    return `<g class="s${i}"><path d="M${left} 26h24"/></g><text x="${left + 32}" y="30">${escapeXml(name)}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${HEIGHT}" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12">
<title>POST over connections: requests per second, and latencies</title>
<style>${style()}</style>
<rect class="page" width="${WIDTH}" height="${HEIGHT}"/>
${legend.join('\n')}
${panel(LEFT, 'requests per second', x, perSecond)}
${lines(perSecond, (point) => point.perSecond, 'solid')}
</g>
${panel(RIGHT, 'latency in ms: median solid, 99th percentile dashed', x, latency)}
${lines(latency, (point) => point.p50, 'solid')}
${lines(latency, (point) => point.p99, 'dashed')}
</g>
</svg>
`;
}

/** The axes of a panel; its group is left open for the lines. */
function panel(left: number, title: string, x: Axis, y: Axis): string {
  const { top, width, height } = PLOT;
  const rows = y.ticks.map((tick) => {
    const at = ((1 - y.at(tick)) * height).toFixed(1);
    return `<path class="grid" d="M0 ${at}h${width}"/><text x="-8" y="${at}" dy="4" text-anchor="end">${spaced(tick)}</text>`;
  });
  const columns = x.ticks.map((tick) => {
    const at = (x.at(tick) * width).toFixed(1);
    return `<text x="${at}" y="${height + 20}" text-anchor="middle">${spaced(tick)}</text>`;
  });
  return `<g transform="translate(${left} ${top})">
<text x="-8" y="-16">${title}</text>
<text x="${width / 2}" y="${height + 42}" text-anchor="middle">connections</text>
${[...rows, ...columns].join('\n')}`;
}

function style(): string {
  const colors = (values: string[]) =>
    values.map((value, i) => `.s${i}{stroke:${value};fill:${value}}`).join('');
  return `text{fill:#1f2328}.page{fill:#fff}.grid{stroke:#d1d9e0}polyline{fill:none}polyline,.s0,.s1,.s2,.s3{stroke-width:2}
.dashed{stroke-dasharray:6 4}${colors(COLORS)}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.page{fill:#0d1117}.grid{stroke:#3d444d}${colors(DARK_COLORS)}}`;
}

function linear(most: number): Axis {
  const power = 10 ** Math.floor(Math.log10(most / 4));
  const step = power * ([1, 2, 5].find((factor) => most / 4 <= factor * power) ?? 10);
  const count = Math.ceil(most / step);
  return {
    ticks: Array.from({ length: count + 1 }, (_, i) => i * step),
    at: (value) => value / (count * step),
  };
}

function logarithmic(ticks: readonly number[]): Axis {
  const [first, last] = [ticks[0] ?? 1, ticks.at(-1) ?? 1];
  return { ticks, at: (value) => Math.log(Math.max(value, first) / first) / Math.log(last / first) };
}

/** The powers of ten around the values, of which some may be 0. */
function powersOfTen(values: readonly number[]): number[] {
  const powers = values.filter((value) => value > 0).map(Math.log10);
  const first = Math.floor(Math.min(...powers));
  const count = Math.ceil(Math.max(...powers)) - first;
  return Array.from({ length: count + 1 }, (_, i) => Number((10 ** (first + i)).toPrecision(1)));
}

function escapeXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}

/** Thousands are separated by a space (ISO 80000-1). */
function spaced(value: number): string {
  return value.toLocaleString('en').replaceAll(',', ' ');
}
