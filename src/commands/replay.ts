import { cloudEvent } from '../audit/cloudEvent.ts';
import type { EventQuery } from '../audit/eventFilter.ts';
import { replay } from '../audit/replay.ts';
import type { RecordedEvent } from '../eventStore/eventStore.ts';
import { printable } from '../printable.ts';
import { filterOfOptions } from './eventOptions.ts';
import { openLogUntil, type Surroundings, write } from './surroundings.ts';

type Options = EventQuery & { follow?: true; table?: true };

/** Prints events as CloudEvents, one a line, or as a table. */
export async function replayCommand(options: Options, surroundings: Surroundings): Promise<void> {
  const { config, output, signal } = surroundings;
  const filter = filterOfOptions(options);
  const line = options.table
    ? row
    : (event: RecordedEvent) => JSON.stringify(cloudEvent(event, config.source));
  await using open = new AsyncDisposableStack();
  const log = await openLogUntil(open, surroundings);
  const batches = replay(log, filter, { signal, live: options.follow === true, after: '--after' });
  let head = options.table ? HEAD : '';
  for await (const { events } of batches) {
    if (events.length === 0) continue;
    await write(output, `${head}${events.map(line).join('\n')}\n`);
    head = '';
  }
  if (!signal.aborted) await write(output, head);
}

const columns = (position: string, time: string, type: string, stream: string, data: string): string =>
  `${position.padStart(10)}  ${time.padEnd(24)}  ${type.padEnd(12)}  ${stream.padEnd(20)}  ${data}`;

const HEAD = `${columns('position', 'time', 'type', 'stream', 'data')}\n`;

function row(event: RecordedEvent): string {
  const { position, type, subject, time = '', data } = cloudEvent(event, '');
  return printable(columns(position, time, type, subject, JSON.stringify(data) ?? ''));
}
