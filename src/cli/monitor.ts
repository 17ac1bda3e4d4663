import { parseRfc3339 } from '@event-sourced/event-log/time';
import { type CheckEvent, type MonitorOptions, monitorLog } from '@event-sourced/transparency-log/monitor';
import { isKnownType, plantContentProblem } from '../domain.ts';
import { type Context, write } from './context.ts';
import { commandProgress } from './progress.ts';

const STATE_FORMAT = 'plant-store monitor 1';

/** Checks a log over HTTP, and its events as those of this service. */
export async function monitorCommand(options: MonitorOptions, context: Context): Promise<void> {
  const { env, output, print, onTerminal, signal } = context;
  const openProgress = () => {
    const progress = commandProgress(onTerminal ? print : () => {}, onTerminal);
    return {
      show: (events: number, end: number) =>
        progress.show({ step: 'checking', events, position: BigInt(events), end: BigInt(end) }),
      close: () => progress[Symbol.dispose](),
    };
  };
  await monitorLog(options, {
    token: env.TOKEN,
    write: (line) => write(output, line),
    print,
    signal,
    stateFormat: STATE_FORMAT,
    check: checkEvent,
    openProgress,
  });
}

const checkEvent: CheckEvent = (event) => {
  if (!isKnownType(event.type)) return undefined;
  const problem = plantContentProblem(event);
  if (problem !== undefined) return { problem };
  const { occurredAt } = event.metadata as { occurredAt: string };
  return { occurredAt, time: parseRfc3339(occurredAt) as number };
};
