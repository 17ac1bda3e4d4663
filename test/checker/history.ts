/** What a client asks an instance for. Plants are named by their user and number. */
export type Request =
  | { kind: 'create'; user: string; plant: number; name: string }
  /** The whole list, or page by page; `named` is the position that the client knows of. */
  | { kind: 'list'; user: string; named?: bigint; limit?: number }
  /** A replay of the events after a position. */
  | { kind: 'replay'; after: bigint }
  /** Some pages of the newest events. */
  | { kind: 'newest'; limit: number; pages: number }
  | { kind: 'receipt'; user: string; plant: number }
  | { kind: 'checkpoint' };

export type TreeHead = { size: number; root: string };

/** The response to the client. `cut`: it was incomplete. Positions are positions of events. */
export type Response =
  | { error: number | 'cut' | 'disconnected' }
  /** A response that ended, and cannot be parsed or verified. */
  | { error: 'malformed'; why: string }
  | { created: bigint }
  | { names: string[]; position: bigint }
  | { replayed: bigint[]; head: TreeHead | undefined }
  | { newest: bigint[]; isEnd: boolean }
  | { receipt: { index: number; stream: string; head: TreeHead } }
  | { signed: TreeHead };

/** A request and its response. `start` and `end` are their places in the order of all that happened. */
export type Operation = {
  instance: number;
  /** How often the instance had been started. */
  run: number;
  request: Request;
  response: Response;
  start: number;
  end: number;
  /** All faults are healed, and everything has been delivered. */
  isFinal: boolean;
};

/** What clients and the nemesis did, in the order in which it happened. */
export class History {
  readonly operations: Operation[] = [];
  readonly faults: { what: string; at: number }[] = [];
  /** Set when all faults are healed. */
  isFinal = false;
  #clock = 0;

  /** Records a request with its response. */
  async record(
    { number: instance, run }: { number: number; run: number },
    request: Request,
    send: () => Promise<Response>,
  ): Promise<Response> {
    const start = ++this.#clock;
    const response = await send();
    const { isFinal } = this;
    this.operations.push({ instance, run, request, response, start, end: ++this.#clock, isFinal });
    return response;
  }

  fault(what: string): void {
    this.faults.push({ what, at: ++this.#clock });
  }
}

/** The history of some operations, with the faults between them, one per line. */
export function formatHistory(operations: readonly Operation[], faults: History['faults']): string {
  const first = Math.min(...operations.map(({ start }) => start));
  const last = Math.max(...operations.map(({ end }) => end));
  const lines: [at: number, line: string][] = operations.map(
    ({ instance, request, response, start, end }) => [
      start,
      `${start} to ${end}, instance ${instance}: ${text(request)} → ${text(response)}`,
    ],
  );
  for (const { what, at } of faults) if (at > first && at < last) lines.push([at, `${at}: ${what}`]);
  return lines
    .sort(([a], [b]) => a - b)
    .map(([, line]) => line)
    .join('\n');
}

const text = (value: object): string =>
  JSON.stringify(value, (_, part) => (typeof part === 'bigint' ? String(part) : part));
