import { parentPort, Worker, type WorkerOptions, workerData } from 'node:worker_threads';

// Calls to threads, and events from them. A message is an array of packets. `node --watch` posts objects on the same
// port.

/** The operations of a thread: one argument, one result. */
type Operations = { [operation: string]: (argument: never) => unknown };
type Argument<O extends Operations, N extends keyof O> = Parameters<O[N]>[0];

/** A call with the ID NO_REPLY gets no reply. */
type Call = [id: number, operation: string, argument: unknown];
const NO_REPLY = 0;
/** `close` is the operation that ends the thread. */
const CLOSE = 'close';

type Packet =
  | { started: unknown }
  | { event: unknown }
  | { id: number; value: unknown }
  | { id: number; error: unknown };

type ThreadOptions<Event> = {
  /** What `threadData` returns on the thread. */
  data?: unknown;
  onEvent?: (event: Event) => void;
  /** Called if the thread ends with an error, or ends before it is closed. */
  onEnd?: (error: Error) => void;
} & Pick<WorkerOptions, 'env' | 'stdout' | 'stderr' | 'resourceLimits'>;

type Pending = { resolve: (value: never) => void; reject: (error: unknown) => void };

/** A thread that runs a module. The module calls `serve`, or `finish` with its only result. */
export class Thread<O extends Operations, Started = void, Event = never> {
  /** Resolves with the value that the module passed to `serve` or `finish`; rejects with the error if the thread ended first. */
  readonly started: Promise<Started>;
  readonly worker: Worker;
  readonly #exited: Promise<Error | undefined>;
  readonly #pending = new Map<number, Pending>();
  #lastId = NO_REPLY;
  #calls: Call[] = [];
  #isClosing = false;
  #ended: Error | undefined;

  constructor(module: URL, { data, onEvent, onEnd, ...options }: ThreadOptions<Event> = {}) {
    this.worker = new Worker(module, { ...options, workerData: { module: module.href, data } });
    const { promise, resolve, reject } = Promise.withResolvers<Started>();
    this.started = promise;
    promise.catch(() => {});
    this.worker.on('message', (packets: Packet[]) => {
      if (!Array.isArray(packets)) return; // of `node --watch`
      for (const packet of packets)
        if ('started' in packet) resolve(packet.started as Started);
        else if ('event' in packet) onEvent?.(packet.event as Event);
        else this.#finish(packet);
    });
    let error: Error | undefined;
    this.worker.on('error', (uncaught) => {
      error = uncaught as Error;
    });
    this.#exited = new Promise((exited) => {
      this.worker.on('exit', () => {
        this.#ended = error ?? new Error('the thread has ended');
        reject(this.#ended);
        for (const pending of this.#pending.values()) pending.reject(this.#ended);
        this.#pending.clear();
        if (error || !this.#isClosing) onEnd?.(this.#ended);
        exited(error);
      });
    });
  }

  /** The calls of one event loop turn share a message. Rejects with a structured clone of what the operation threw. */
  call<N extends keyof O & string>(
    operation: N,
    argument: Argument<O, N>,
  ): Promise<Awaited<ReturnType<O[N]>>> {
    if (this.#ended) return Promise.reject(this.#ended);
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject });
      if (this.#calls.length === 0) setImmediate(() => this.#send());
      this.#calls.push([id, operation, argument]);
    });
  }

  /** Sends a call without a reply, at once. An error ends the thread. */
  post<N extends keyof O & string>(operation: N, argument: Argument<O, N>): void {
    this.#calls.push([NO_REPLY, operation, argument]);
    this.#send();
  }

  /** Ends the thread after its calls, and waits for its end. @throws Error that ended it */
  async close(): Promise<void> {
    this.#isClosing = true;
    this.#calls.push([NO_REPLY, CLOSE, undefined]);
    this.#send();
    const error = await this.#exited;
    if (error) throw error;
  }

  /** Ends the thread at once. */
  async terminate(): Promise<void> {
    this.#isClosing = true;
    await this.worker.terminate();
  }

  #send(): void {
    if (this.#calls.length > 0) this.worker.postMessage(this.#calls);
    this.#calls = [];
  }

  #finish(reply: { id: number } & ({ value: unknown } | { error: unknown })): void {
    const pending = this.#pending.get(reply.id);
    this.#pending.delete(reply.id);
    if ('error' in reply) pending?.reject(reply.error);
    else pending?.resolve(reply.value as never);
  }
}

/** The URL of a module beside another module, compiled if the other one is; `name` has no extension. */
export function moduleBeside(importMetaUrl: string, name: string): URL {
  return new URL(`${name}${/\.\w+$/.exec(new URL(importMetaUrl).pathname)?.[0]}`, importMetaUrl);
}

/** Whether this thread was started for a module; other threads may import the module, too. */
export function isThreadFor(importMetaUrl: string): boolean {
  return (workerData as { module?: string } | null)?.module === importMetaUrl;
}

/** The data of this thread. */
export const threadData = <T>(): T => (workerData as { data: T }).data;

/** Sends the only result of this thread, which serves no calls: it ends when its event loop is empty. */
export function finish(result: unknown): void {
  parentPort?.postMessage([{ started: result }] satisfies Packet[]);
}

/**
 * Serves calls on this thread; returns a function that sends events. The operation `close` completes open work before the
 * thread ends.
 */
export function serve<O extends Operations, Started = void, Event = never>(
  operations: O & { close?: () => unknown },
  started?: Started,
): (event: Event) => void {
  const port = parentPort as NonNullable<typeof parentPort>;
  let packets: Packet[] = [{ started }];
  const send = (): void => {
    if (packets.length > 0) port.postMessage(packets);
    packets = [];
  };
  /** The replies of one event loop turn share a message. */
  const reply = (packet: Packet): void => {
    if (packets.length === 0) setImmediate(send);
    packets.push(packet);
  };
  const run = async ([id, operation, argument]: Call): Promise<void> => {
    try {
      const value = await (operations[operation] as ((argument: unknown) => unknown) | undefined)?.(argument);
      if (id !== NO_REPLY) reply({ id, value });
    } catch (error) {
      if (id === NO_REPLY) throw error;
      reply({ id, error });
    }
    if (operation !== CLOSE) return;
    send();
    port.close();
  };
  send();
  port.on('message', (calls: Call[]) => calls.forEach(run));
  return (event) => {
    packets.push({ event });
    send();
  };
}
