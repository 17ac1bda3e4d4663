import { styleText } from 'node:util';
import { printable } from '@event-sourced/node/cli';
import pino from 'pino';

const COLORS: Record<string, 'green' | 'yellow' | 'red'> = {
  info: 'green',
  warn: 'yellow',
  error: 'red',
  fatal: 'red',
};

/** Formats a log line for a terminal: time, level and message, then an error's stack and the remaining fields. */
export function humanReadable(line: string): string {
  const { time, level, msg, err, ...fields } = JSON.parse(line);
  const name = pino.levels.labels[level] as string;
  const { type: _type, message, stack = message, ...errorFields } = err ?? {};
  const details = [
    ...(err ? String(stack).split('\n') : []),
    ...Object.entries({ ...errorFields, ...fields }).map(
      ([name, value]) => `${name}: ${JSON.stringify(value)}`,
    ),
  ];
  const head = `${time} ${styleText(COLORS[name] ?? 'gray', name.toUpperCase())}: ${printable(String(msg ?? ''))}\n`;
  return head + details.map((detail) => `    ${printable(detail)}\n`).join('');
}
