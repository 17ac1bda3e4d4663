import {
  appendRequest,
  NO_LOG_ID,
  NO_STREAM,
  type RecordedEvent,
  START,
  StoreUnavailable,
} from '@event-sourced/event-log';
import { unlessLater } from '@event-sourced/node/time';
import { ATTEMPT_TIMEOUT_MS } from './client.ts';
import type { Connection } from './connection.ts';
import type { LogEnd } from './logEnd.ts';
import { CallFailed, type LogId } from './protocol.ts';

type Options = {
  /** The stream whose first event has the ID of the log. */
  identityStream: string;
  /** Called before an empty log gets its first event; if it throws, nothing is appended. */
  onEmpty?: (() => void) | undefined;
};

const TYPE = 'LogBegun';
/** The form of an ID: clients get it in headers, followed by a position. */
const LOG_ID = /^e[\da-f]{12}$/;
const NONE: LogId = { id: NO_LOG_ID, isStored: false };

/**
 * The ID of the log: read once over each connection, whose server may have a different log. Callers share each attempt,
 * and wait for it up to their own timeouts.
 */
export class Identity {
  /** The ID that was last read. */
  last = NO_LOG_ID;
  readonly #options: Options;
  readonly #end: Pick<LogEnd, 'attempt'>;

  constructor(options: Options, end: Pick<LogEnd, 'attempt'>) {
    this.#options = options;
    this.#end = end;
  }

  /** The ID of the log of a connection; while the log is empty, it is read again. @throws CallFailed */
  async read(connection: Connection, timeoutMs: number): Promise<string> {
    const { logId } = connection;
    return (logId ?? (await shared(connection, 'read', timeoutMs, () => this.#read(connection)))).id;
  }

  /** The same, stored before anything else is appended. A log that has had an ID before keeps it. @throws CallFailed */
  async stored(connection: Connection, timeoutMs: number): Promise<string> {
    const { logId } = connection;
    if (logId?.isStored) return logId.id;
    return (await shared(connection, 'store', timeoutMs, () => this.#store(connection))).id;
  }

  async #read(connection: Connection): Promise<LogId> {
    const logId = await this.#find(connection);
    this.last = logId.id;
    if (logId.id !== NO_LOG_ID) connection.logId = logId;
    return logId;
  }

  /** Each log has its ID from the first event of its identity stream; before there was one, from that of $all. */
  async #find(connection: Connection): Promise<LogId> {
    const stored = await this.#findStored(connection);
    if (stored) return stored;
    if ((await this.#end.attempt(connection, ATTEMPT_TIMEOUT_MS)) === START) return NONE;
    // The ID may have been stored since, before the first event of the log. If not, an earlier version wrote the log.
    const storedSince = await this.#findStored(connection);
    if (storedSince) return storedSince;
    const first = await connection.call('readEdge', 'first', ATTEMPT_TIMEOUT_MS);
    return first ? { id: toLogId(first), isStored: false } : NONE;
  }

  /** The ID in the identity stream; undefined if the stream does not exist. */
  async #findStored(connection: Connection): Promise<LogId | undefined> {
    const { identityStream: stream } = this.#options;
    const events = await connection.call('readStream', { stream, limit: 1 }, ATTEMPT_TIMEOUT_MS);
    if (!events) throw lost(`the first event of ${stream} was deleted`);
    const [begun] = events;
    if (!begun) return undefined;
    const id = storedId(begun);
    if (id === undefined) throw lost(`the first event of ${stream} is not one of the service`);
    return { id, isStored: true };
  }

  /** Of concurrent attempts, also of other instances, one succeeds. */
  async #store(connection: Connection): Promise<LogId> {
    const { identityStream, onEmpty } = this.#options;
    const known = connection.logId ?? (await this.#read(connection));
    if (known.isStored) return known;
    const isEmpty = known.id === NO_LOG_ID;
    try {
      if (isEmpty) onEmpty?.();
    } catch (error) {
      throw new StoreUnavailable((error as Error).message, { cause: error });
    }
    const data = isEmpty ? {} : { logId: known.id };
    const begun = { id: crypto.randomUUID(), type: TYPE, data, metadata: {} };
    const request = appendRequest(identityStream, begun, NO_STREAM);
    await connection.call('append', request, ATTEMPT_TIMEOUT_MS);
    const stored = await this.#read(connection);
    if (!stored.isStored) throw new CallFailed('transient', 'the ID of the log cannot be read yet');
    return stored;
  }
}

const lost = (reason: string): StoreUnavailable =>
  new StoreUnavailable(`the log has lost its ID: ${reason}; nothing is appended`);

const toLogId = ({ id }: RecordedEvent): string => `e${id.slice(-12)}`;

/**
 * The event that stored the ID of an older log has it; otherwise its own ID gives it. Undefined if another program has
 * written the event.
 */
function storedId(begun: RecordedEvent): string | undefined {
  const { logId = toLogId(begun) } = (begun.data ?? {}) as { logId?: unknown };
  return begun.type === TYPE && typeof logId === 'string' && LOG_ID.test(logId) ? logId : undefined;
}

/** Joins the attempt in flight, or starts one; it continues after the timeout of a caller. */
async function shared(
  { attempts }: Connection,
  name: string,
  timeoutMs: number,
  start: () => Promise<LogId>,
): Promise<LogId> {
  const attempt = attempts.get(name) ?? start().finally(() => attempts.delete(name));
  attempts.set(name, attempt);
  attempt.catch(() => {}); // all callers may have stopped waiting
  const logId = await unlessLater(timeoutMs, attempt);
  if (!logId)
    throw new CallFailed('transient', `the ID of the log was not read in ${Math.round(timeoutMs)} ms`);
  return logId;
}
