import { setTimeout as pause } from 'node:timers/promises';
import { Random } from '@event-sourced/testing/random';
import type { RecordedEvent } from '../../packages/event-log/src/eventStore.ts';
import { entryLeafHash, MerkleTree } from '../../packages/tlog/src/merkle/merkleTree.ts';
import { eventEntry } from '../../packages/transparency-log/src/digest/eventEntry.ts';
import { type Instance, RandomClient } from './client.ts';
import { formatHistory, History, type Operation } from './history.ts';
import { type Log, shortest, type Violation, violationIn } from './model.ts';

/** The service and its event store, and what can happen to them. */
export type System = {
  instances: readonly Instance[];
  vkey: string;
  /** What the nemesis does, by name; it resolves when it is over, healed or not. */
  faults: Record<string, (random: Random) => Promise<void>>;
  /** Heals all faults, and resolves when every instance has every event. */
  heal(): Promise<void>;
  /** The events of plants in the log. */
  events(): Promise<RecordedEvent[]>;
  logPosition(position: bigint): Promise<string>;
  /** Log lines that no fault explains. */
  unexpectedLines(): string[];
};

const CLIENTS = 6;
const REQUESTS_PER_CLIENT = 30;
/** The nemesis waits this long between two faults at most, in milliseconds. */
const MAX_PAUSE_MS = 200;

/**
 * Lets random clients and a nemesis loose on a system, both by a seed, and judges the history of all requests, and of reads
 * after it is healed. Returns a report of the shortest history that violates what the log allows; undefined if there is none.
 */
export async function check(system: System, seed: number): Promise<string | undefined> {
  const random = new Random(seed);
  const history = new History();
  const users = [`alice-${seed}`, `bob-${seed}`, `reader-${seed}`];
  const before = await system.events();
  const after = before.at(-1)?.position ?? 0n;
  const { instances, vkey } = system;
  const newClient = () => new RandomClient({ instances, history, vkey, users, after, random: random.fork() });

  try {
    await sendRandomly(system, history, newClient, random);
    await system.heal();
    history.isFinal = true;
    const events = await system.events();
    const position = events.at(-1)?.position ?? 0n;
    await newClient().sendAll({ position, text: await system.logPosition(position) });

    const log = logOf(events, before.length, history.operations);
    const violation = violationIn(history.operations, log);
    if (violation) return reportOf(seed, history, log, violation);
  } catch (error) {
    throw new Error(`seed ${seed}: ${(error as Error).message}`, { cause: error });
  }
  const [line] = system.unexpectedLines();
  return line && `seed ${seed}: unexpected log line: ${line}`;
}

/** Sends random requests, while the nemesis injects one fault after the other. */
async function sendRandomly(
  { faults }: System,
  history: History,
  newClient: () => RandomClient,
  random: Random,
) {
  const over = new AbortController();
  const nemesis = async (own: Random): Promise<void> => {
    while (!over.signal.aborted) {
      const [what, inject] = own.pick(Object.entries(faults));
      history.fault(what);
      await inject(own);
      history.fault(`${what} is over`);
      await pause(own.below(MAX_PAUSE_MS));
    }
  };
  const clients = Array.from({ length: CLIENTS }, newClient);
  const sent = Promise.all(clients.map((client) => client.send(REQUESTS_PER_CLIENT)));
  const all = [sent.finally(() => over.abort()), newClient().list(over.signal), nemesis(random.fork())];
  try {
    await Promise.all(all);
  } finally {
    over.abort();
    await Promise.allSettled(all);
  }
}

function reportOf(seed: number, history: History, log: Log, violation: Violation): string {
  const operations = shortest(history.operations, log, violation);
  const { operation, why } = violation;
  return `seed ${seed}: ${why}, in response to ${operation.request.kind} from ${operation.start} to ${operation.end}:\n${formatHistory(operations, history.faults)}`;
}

/** The log as the model takes it: roots of all its prefixes, and when each plant was first requested. */
function logOf(events: readonly RecordedEvent[], known: number, operations: readonly Operation[]): Log {
  const tree = new MerkleTree();
  const roots = [tree.root()];
  const requested = new Map<string, number>();
  for (const { request, start } of operations) {
    if (request.kind !== 'create') continue;
    const key = JSON.stringify([request.user, request.plant, request.name]);
    requested.set(key, Math.min(start, requested.get(key) ?? start));
  }
  const plants = events.map((event, i) => {
    tree.append(entryLeafHash(eventEntry(event)));
    roots.push(tree.root());
    const { position } = event;
    const { user, id, name } = event.data as { user: string; id: string; name: string };
    const plant = Number(id);
    const requestedAt = i < known ? 0 : (requested.get(JSON.stringify([user, plant, name])) ?? 0);
    return { position, user, plant, name, requestedAt };
  });
  return { plants, roots };
}
