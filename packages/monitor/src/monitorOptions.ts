import { parseLogKey } from '@event-sourced/tlog';
import { openPolicy, type PolicyOptions, parseHttpUrl, URL_RULE } from '@event-sourced/tlog/witness';
import { parseDuration } from './durations.ts';

/** The options of the command, as text. */
export type MonitorOptions = PolicyOptions & {
  url: string;
  key: string;
  origin?: string;
  state: string;
  once?: true;
  events?: true;
  all?: true;
  interval: string;
  timeout: string;
  staleAfter?: string;
  expectGrowth?: true;
  known?: readonly string[];
};

/** Parses the options; `print` gets the witnesses that are not counted. @throws Error for the operator */
export function parseMonitorOptions(options: MonitorOptions, print: (line: string) => void) {
  const { once, events, all, expectGrowth, staleAfter } = options;
  if (expectGrowth && staleAfter === undefined) throw new Error('--expect-growth requires --stale-after.');
  return {
    key: parseLogKey(options),
    url: parseUrl(options.url),
    once,
    events,
    all,
    expectGrowth,
    intervalMs: parseInterval(options.interval),
    timeoutMs: parseDuration(options.timeout, '--timeout'),
    staleAfterMs: staleAfter === undefined ? undefined : parseDuration(staleAfter, '--stale-after'),
    policy: openPolicy(options, print),
  };
}

function parseUrl(text: string): string {
  const url = parseHttpUrl(text);
  if (url === undefined) throw new Error(`--url must be ${URL_RULE}.`);
  return url;
}

function parseInterval(text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new Error('--interval must be a number of seconds.');
  return Number(text) * 1_000;
}
