import type { Operation, Request, Response, TreeHead } from './history.ts';

/** A plant in the log, and the place in the history of the first request to create it; 0 if it was there before. */
type LoggedPlant = {
  position: bigint;
  user: string;
  plant: number;
  name: string;
  requestedAt: number;
};

/** The log at the end: since it is append-only, each state that it had is a prefix. `roots[n]` is that of n events. */
export type Log = { plants: readonly LoggedPlant[]; roots: readonly string[] };

export type Violation = { operation: Operation; why: string };

/** The first operation whose response the log did not allow at any time between request and response, and why. */
export function violationIn(operations: readonly Operation[], log: Log): Violation | undefined {
  const model = new Model(operations, log);
  for (const operation of operations) {
    const why = model.judge(operation);
    if (why !== undefined) return { operation, why };
  }
  return undefined;
}

/** A part of a history that shows a violation, such that no operation can be left out. */
export function shortest(
  operations: readonly Operation[],
  log: Log,
  { operation, why }: Violation,
): Operation[] {
  let rest = [...operations];
  for (let size = Math.ceil(rest.length / 2); size > 0; size = Math.floor(size / 2))
    for (let at = 0; at < rest.length; ) {
      const without = [...rest.slice(0, at), ...rest.slice(at + size)];
      if (without.includes(operation) && new Model(without, log).judge(operation) === why) rest = without;
      else at += size;
    }
  return rest;
}

const STORE_UNAVAILABLE = 50301;
const VIEW_BEHIND = 50302;
const UNKNOWN_PLANT = 40402;
const PLANT_ID_TAKEN = 40003;

/** A plant in the log; the first plant has index 0. */
type Entry = LoggedPlant & { index: number };

class Model {
  readonly #operations: readonly Operation[];
  readonly #roots: readonly string[];
  readonly #entries: readonly Entry[];
  readonly #byPosition: ReadonlyMap<bigint, Entry>;
  readonly #byUser: ReadonlyMap<string, Entry[]>;
  /** How many events each response shows that the log had. */
  readonly #shown: ReadonlyMap<Operation, number>;

  constructor(operations: readonly Operation[], { plants, roots }: Log) {
    this.#operations = operations;
    this.#roots = roots;
    this.#entries = plants.map((plant, index) => ({ ...plant, index }));
    this.#byPosition = new Map(this.#entries.map((entry) => [entry.position, entry]));
    this.#byUser = Map.groupBy(this.#entries, ({ user }) => user);
    this.#shown = new Map(operations.map((operation) => [operation, this.#shownBy(operation)]));
  }

  /** Why the response of an operation is not allowed; undefined if it is. */
  judge(operation: Operation): string | undefined {
    const { request, response } = operation;
    if ('error' in response) return this.#judgeError(operation, response.error);
    if ('created' in response) return this.#judgeCreated(request as Create, response.created);
    if ('names' in response) return this.#judgeList(operation, request as List, response);
    if ('replayed' in response) return this.#judgeReplay(operation, request as Replay, response);
    if ('newest' in response) return this.#judgeNewest(operation, response);
    if ('receipt' in response) return this.#judgeReceipt(operation, request as Receipt, response.receipt);
    return this.#judgeCheckpoint(operation, response.signed);
  }

  #judgeCreated({ user, plant, name }: Create, created: bigint): string | undefined {
    const [logged, ...more] = this.#userPlants(user).filter((it) => it.plant === plant);
    if (!logged) return 'it was acknowledged, and the log does not have it';
    if (more.length > 0) return 'the log has it more than once';
    if (logged.name !== name) return `the log has it with the name ${logged.name}`;
    return logged.position === created ? undefined : `the log has it at position ${logged.position}`;
  }

  #judgeList(operation: Operation, { user, named, limit }: List, { names, position }: ListResponse) {
    const plants = this.#userPlants(user);
    if (names.some((name, i) => name !== plants[i]?.name)) return 'it is not the beginning of the plants';
    if (limit === undefined && names.length !== upTo(plants, position).length)
      return `it does not have the plants up to its position ${position}`;
    const earlier = this.#listsBefore(operation);
    const reached = earlier.map(({ response }) => response.position);
    const known = [...this.#positionsKnown(operation, user), named ?? 0n, ...reached];
    // The last of several pages may have plants after the position, which is that of the first.
    const listed = earlier
      .filter((it) => it.request.user === user)
      .map(({ response }) => response.names.length);
    const least = Math.max(...known.map((at) => upTo(plants, at).length), ...listed);
    return this.#judgeCount(operation, names.length, { least, of: plants });
  }

  #judgeReplay(operation: Operation, { after }: Replay, { replayed, head }: ReplayResponse) {
    const first = upTo(this.#entries, after).length;
    const size = first + replayed.length;
    if (replayed.some((position, i) => position !== this.#entries[first + i]?.position))
      return 'it does not have consecutive events of the log';
    if (head && head.size !== size) return `it ends after ${size} events, its checkpoint after ${head.size}`;
    return this.#judgeHead(head) ?? this.#judgeSize(operation, size);
  }

  #judgeNewest(operation: Operation, { newest, isEnd }: NewestResponse): string | undefined {
    const indexes = newest.map((position) => this.#byPosition.get(position)?.index ?? -1);
    const [first = -1] = indexes;
    if (indexes.some((index, i) => index !== first - i))
      return 'it does not have consecutive events of the log';
    if (isEnd && (indexes.at(-1) ?? 0) !== 0) return 'it ends before the start of the log';
    return this.#judgeSize(operation, first + 1);
  }

  #judgeReceipt(
    operation: Operation,
    { user, plant }: Receipt,
    receipt: ReceiptResponse,
  ): string | undefined {
    const { index, stream, head } = receipt;
    const logged = this.#entries[index];
    if (logged?.user !== user || logged.plant !== plant) return `the log has another event ${index}`;
    if (stream !== `plant-${user}/${plant}`) return `its entry is of the stream ${stream}`;
    return this.#judgeHead(head) ?? this.#judgeCount(operation, head.size, { least: index + 1 });
  }

  #judgeCheckpoint(operation: Operation, signed: TreeHead): string | undefined {
    const least = Math.max(
      0,
      ...this.#before(operation).flatMap(({ instance, response }) =>
        instance === operation.instance && 'signed' in response ? [response.signed.size] : [],
      ),
    );
    return this.#judgeHead(signed) ?? this.#judgeCount(operation, signed.size, { least });
  }

  #judgeError(operation: Operation, error: number | string): string | undefined {
    const { request, end } = operation;
    const allowed = (): boolean => {
      if (error === 'cut' || error === 'disconnected' || error === STORE_UNAVAILABLE) return true;
      switch (request.kind) {
        case 'create':
          return error === PLANT_ID_TAKEN && this.#hasOther(request, end);
        case 'list':
          return error === VIEW_BEHIND && !this.#isReadable(operation, request);
        case 'receipt':
          return error === VIEW_BEHIND || (error === UNKNOWN_PLANT && !this.#isKnown(operation, request));
        case 'checkpoint':
          return error === VIEW_BEHIND;
        default:
          return false;
      }
    };
    return allowed() ? undefined : `the log does not explain error ${error}`;
  }

  /** Whether another plant with the same ID was requested before. */
  #hasOther({ user, plant, name }: Create, before: number): boolean {
    return this.#userPlants(user).some(
      (it) => it.plant === plant && it.name !== name && it.requestedAt < before,
    );
  }

  /** Whether earlier responses show that the log has a plant. */
  #isKnown(operation: Operation, plant: Receipt): boolean {
    const size = this.#sizeWith(plant);
    return size > 0 && size <= this.#sizeKnown(operation);
  }

  /** The minimum size of the log, by earlier responses of any instance. */
  #sizeKnown(operation: Operation): number {
    return Math.max(0, ...this.#before(operation).map((it) => this.#shown.get(it) ?? 0));
  }

  #shownBy({ request, response }: Operation): number {
    if ('created' in response) return this.#sizeAt(response.created);
    if ('names' in response) return upTo(this.#entries, response.position).length;
    if ('replayed' in response)
      return upTo(this.#entries, (request as Replay).after).length + response.replayed.length;
    if ('newest' in response) return this.#sizeAt(response.newest[0]);
    if ('receipt' in response) return response.receipt.head.size;
    if ('signed' in response) return response.signed.size;
    return response.error === PLANT_ID_TAKEN ? this.#sizeWith(request as Create) : 0;
  }

  /** The size of the log with the event at a position; 0 if it has none there. */
  #sizeAt(position: bigint | undefined): number {
    return position === undefined ? 0 : (this.#byPosition.get(position)?.index ?? -1) + 1;
  }

  /** The size of the log with a plant; 0 if it does not have it. */
  #sizeWith({ user, plant }: { user: string; plant: number }): number {
    return (this.#userPlants(user).find((it) => it.plant === plant)?.index ?? -1) + 1;
  }

  /**
   * Whether a list of this run of an instance has shown that its view has what the client knows of. A list of an empty
   * log has not: with its first event, the view catches up again.
   */
  #isReadable(operation: Operation, { user, named }: List): boolean {
    const reached = this.#listsBefore(operation)
      .filter(({ run }) => run === operation.run)
      .map(({ response }) => response.position)
      .filter((position) => position > 0n);
    // Also what was acknowledged meanwhile.
    const known = [...this.#positionsKnown({ ...operation, start: operation.end }, user), named ?? 0n];
    return reached.length > 0 && known.every((position) => reached.some((at) => at >= position));
  }

  /** The positions that the instance of an operation acknowledged to a user before. */
  #positionsKnown(operation: Operation, user: string): bigint[] {
    return this.#before(operation).flatMap(({ instance, request, response }) =>
      instance === operation.instance && 'created' in response && (request as Create).user === user
        ? [response.created]
        : [],
    );
  }

  /** The lists of the instance of an operation before it. */
  #listsBefore(operation: Operation) {
    return this.#before(operation).filter(
      (it): it is Operation & { request: List; response: ListResponse } =>
        it.instance === operation.instance && 'names' in it.response,
    );
  }

  #before({ start }: Operation): Operation[] {
    return this.#operations.filter(({ end }) => end < start);
  }

  #userPlants(user: string): readonly Entry[] {
    return this.#byUser.get(user) ?? [];
  }

  #judgeHead(head: TreeHead | undefined): string | undefined {
    return !head || this.#roots[head.size] === head.root
      ? undefined
      : `the first ${head.size} events of the log have another root`;
  }

  /** What is read from the log itself has every event that an earlier response shows. */
  #judgeSize(operation: Operation, size: number): string | undefined {
    return this.#judgeCount(operation, size, { least: this.#sizeKnown(operation) });
  }

  /** The first `count` of these entries: at the end all, and none that was requested only afterwards. */
  #judgeCount(
    { end, isFinal }: Operation,
    count: number,
    { least, of = this.#entries }: { least: number; of?: readonly Entry[] },
  ): string | undefined {
    const known = isFinal ? of.length : least;
    if (count < known) return `it has ${count} events, and ${known} are known`;
    const early = of.slice(0, count).find(({ requestedAt }) => requestedAt > end);
    return early && `it has plant ${early.plant} of ${early.user} before that was requested`;
  }
}

type Create = Request & { kind: 'create' };
type List = Request & { kind: 'list' };
type Replay = Request & { kind: 'replay' };
type Receipt = Request & { kind: 'receipt' };
type ListResponse = Extract<Response, { names: unknown }>;
type ReplayResponse = Extract<Response, { replayed: unknown }>;
type NewestResponse = Extract<Response, { newest: unknown }>;
type ReceiptResponse = Extract<Response, { receipt: unknown }>['receipt'];

const upTo = (plants: readonly Entry[], position: bigint): readonly Entry[] =>
  plants.filter((it) => it.position <= position);
