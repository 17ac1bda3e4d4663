import type { RecordedEvent } from '@event-sourced/event-log';
import {
  cloudEventLine,
  type EventQuery,
  formatEnd,
  replay,
  toCloudEvent,
} from '@event-sourced/event-log/replay';
import { printable } from '@event-sourced/node/cli';
import { hashedAttributes } from '@event-sourced/transparency-log/digest';
import { type Context, useLog, write } from './context.ts';
import { parseEventOptions } from './eventOptions.ts';

type Options = EventQuery & { follow?: true; table?: true; end?: true };

export async function replayCommand(options: Options, context: Context): Promise<void> {
  const { config, output, signal } = context;
  const filter = parseEventOptions(options);
  const cloudEvents = { source: config.source, hashed: hashedAttributes };
  const toJson = (event: RecordedEvent): string => cloudEventLine(event, cloudEvents);
  const format = options.table ? tableRow : toJson;
  await using resources = new AsyncDisposableStack();
  const log = await useLog(resources, context, { forHashing: true });
  const batches = replay(log, filter, { signal, live: options.follow === true });
  let header = options.table ? TABLE_HEADER : '';
  for await (const { events, end } of batches) {
    if (events.length > 0) {
      await write(output, `${header}${events.map(format).join('\n')}\n`);
      header = '';
    }
    if (options.end && end !== undefined) await write(output, formatEnd(end));
  }
  if (!signal.aborted) await write(output, header);
}

const columns = (position: string, time: string, type: string, stream: string, data: string): string =>
  `${position.padStart(10)}  ${time.padEnd(24)}  ${type.padEnd(12)}  ${stream.padEnd(20)}  ${data}`;

const TABLE_HEADER = `${columns('position', 'time', 'type', 'stream', 'data')}\n`;

function tableRow(event: RecordedEvent): string {
  const { position, type, subject, time = '', data } = toCloudEvent(event, { source: '' });
  return printable(columns(position, time, type, subject, JSON.stringify(data) ?? ''));
}
