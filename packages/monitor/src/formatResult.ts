import { printable } from '@event-sourced/node/cli';
import { formatTreeHead } from '@event-sourced/tlog';
import type { Checked } from './checkLog.ts';
import { formatDuration } from './durations.ts';

/** The line of a check without an alarm. */
export function formatResult({ checkpoint, added, again, cosignedAt, events }: Checked, now: Date): string {
  const age = cosignedAt && formatDuration(now.getTime() - cosignedAt * 1_000);
  const { erased = 0, records, neverRead } = events ?? {};
  return [
    `${now.toISOString()}  ${printable(`${checkpoint.origin}  ${formatTreeHead(checkpoint)}`)}`,
    `  new events: ${added}`,
    again > 0 ? `, compared again: ${again}` : '',
    age ? `, cosigned: ${age} ago` : '',
    erased > 0 ? `, erased: ${erased} (${records} record${records === 1 ? '' : 's'})` : '',
    erased > 0 ? `, never read: ${neverRead}` : '',
    '\n',
  ].join('');
}
