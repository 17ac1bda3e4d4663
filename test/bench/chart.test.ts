import { describe, expect, test } from 'vitest';
import { chart } from './chart.ts';

const BARE = {
  name: 'bare',
  points: [
    { connections: 1, perSecond: 5_000, p50: 0, p99: 1 },
    { connections: 1024, perSecond: 20_000, p50: 10, p99: 100 },
  ],
};
const SERVICE = {
  name: 'service of <a & b>',
  points: [
    { connections: 1, perSecond: 1_000, p50: 0.1, p99: 1 },
    { connections: 1024, perSecond: 10_000, p50: 100, p99: 1_000 },
  ],
};
const svg = chart([BARE, SERVICE]);

/** The points of a server's lines: requests per second, p50, p99. */
const linesOf = (server: number): number[][][] =>
  [...svg.matchAll(RegExp(`class="s${server}"><polyline[^>]*points="([^"]*)"`, 'g'))].map(([, points]) =>
    (points ?? '').split(' ').map((point) => point.split(',').map(Number)),
  );

describe('the chart', () => {
  test('has the most requests per second at the top of its panel, and 0 at the bottom', () => {
    expect(linesOf(0)[0]).toEqual([
      [0, 157.5],
      [320, 0],
    ]);
    expect(linesOf(1)[0]).toEqual([
      [0, 199.5],
      [320, 105],
    ]);
  });

  test('has latencies by their powers of ten; what is less than the first is on the axis', () => {
    expect(linesOf(0)[1]).toEqual([
      [0, 210],
      [320, 105],
    ]);
    expect(linesOf(1)[1]).toEqual([
      [0, 210],
      [320, 52.5],
    ]);
    expect(linesOf(1)[2]).toEqual([
      [0, 157.5],
      [320, 0],
    ]);
  });

  test('labels its axes, with units', () => {
    const texts = [...svg.matchAll(/<text[^>]*>([^<]*)</g)].map(([, text]) => text);
    expect(texts).toEqual(
      expect.arrayContaining([
        'requests per second',
        'connections',
        '1',
        '1 024',
        '0',
        '20 000',
        '0.1',
        '1 000',
      ]),
    );
    expect(svg).toContain('latency in ms');
  });

  test('escapes names', () => {
    expect(svg).toContain('service of &lt;a &amp; b>');
  });
});
