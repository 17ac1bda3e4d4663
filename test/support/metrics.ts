import { expect } from 'vitest';
import { VIEWS } from '../../src/views.ts';

/** Samples of a scrape: values by name and labels, as in the text, such as `up{job="x"}`. */
export type Samples = ReadonlyMap<string, number>;

export async function scrapeText(url = ''): Promise<string> {
  const response = await fetch(url);
  const text = await response.text();
  expect([response.status, text]).toEqual([200, expect.stringContaining('# HELP')]);
  return text;
}

export const scrape = async (url: string | undefined): Promise<Samples> => samplesIn(await scrapeText(url));

function samplesIn(text: string): Samples {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => {
      const [, series = '', value] = /^(\S+?(?:\{.*\})?) (\S+)$/.exec(line) ?? [];
      return [series, Number(value)];
    }),
  );
}

/** The samples of one metric, by their labels. */
export function samplesOf(samples: Samples, metric: string): Record<string, number> {
  const own = [...samples].filter(([series]) => series.replace(/\{.*$/, '') === metric);
  return Object.fromEntries(own.map(([series, value]) => [series.slice(metric.length), value]));
}

/** The samples of a metric that has this value for each view. */
export const ofEachView = (value: number): Record<string, number> =>
  Object.fromEntries(Object.keys(VIEWS).map((name) => [`{view="${name}"}`, value]));
