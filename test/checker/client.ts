import { setTimeout as pause } from 'node:timers/promises';
import type { Random } from '@event-sourced/testing/random';
import { expect } from 'vitest';
import { verifyCheckpoint, verifyTlogProof } from '../support/tlogVerifier.ts';
import type { History, Request, Response as Result, TreeHead } from './history.ts';

/** An instance of the service, which the nemesis may start again elsewhere. */
export type Instance = {
  readonly number: number;
  /** How often it has been started. */
  readonly run: number;
  /** Sends a request with the token of a user, and an optional scope. */
  request(user: string, path: string, init?: RequestInit & { scope?: string }): Promise<Response>;
};

type Options = {
  instances: readonly Instance[];
  history: History;
  /** The verifier key of the log. */
  vkey: string;
  /** The users; the last one never creates a plant. */
  users: readonly string[];
  random: Random;
  /** Replays start after this position. */
  after: bigint;
};

/** Few IDs, so that clients repeat them, with the same name or a different one. */
const PLANTS = 40;
const LIST_INTERVAL_MS = 50;

/** A response that is an error, or a broken connection. */
class Failed extends Error {
  readonly result: Result;
  constructor(error: number | 'disconnected', options?: ErrorOptions) {
    super(String(error), options);
    this.result = { error };
  }
}

/** A client that sends random requests, one after the other, to random instances. */
export class RandomClient {
  readonly #options: Options;
  /** The last position that it knows of. */
  #known: { text: string; position: bigint } | undefined;

  constructor(options: Options) {
    this.#options = options;
  }

  async send(requests: number): Promise<void> {
    const { random, instances } = this.#options;
    for (let i = 0; i < requests; i++) await this.record(random.pick(instances), this.#randomRequest());
  }

  /** Sends lists until the signal aborts. */
  async list(signal: AbortSignal): Promise<void> {
    const { random, instances, users } = this.#options;
    while (!signal.aborted) {
      await this.record(random.pick(instances), { kind: 'list', user: random.pick(users) });
      await pause(LIST_INTERVAL_MS);
    }
  }

  /** Sends each kind of read to each instance, until it is available. */
  async sendAll(last: { text: string; position: bigint }): Promise<void> {
    const { instances, users, after } = this.#options;
    this.#known = last;
    for (const instance of instances) {
      const lists = users.map((user) => ({ kind: 'list', user, named: last.position }) as const);
      const reads = [
        { kind: 'replay', after },
        { kind: 'newest', limit: 1_000, pages: 5 },
        { kind: 'checkpoint' },
      ] as const;
      for (const request of [...lists, ...reads])
        await expect
          .poll(() => this.record(instance, request), {
            interval: LIST_INTERVAL_MS,
            message: `${request.kind} of instance ${instance.number}`,
          })
          .not.toSatisfy(isUnavailable);
    }
  }

  #randomRequest(): Request {
    const { random, users, after } = this.#options;
    const user = random.pick(users);
    const creator = random.pick(users.slice(0, -1));
    const plant = random.below(PLANTS);
    const name = `${plant}${random.below(8) === 0 ? ' again' : ''}`;
    const named = random.below(2) === 0 ? this.#known?.position : undefined;
    const list = { kind: 'list', user, ...(named !== undefined && { named }) } as const;
    const create = { kind: 'create', user: creator, plant, name } as const;
    return random.pick<Request>([
      create,
      create,
      create,
      list,
      list,
      { ...list, limit: 1 + random.below(20) },
      { kind: 'replay', after },
      { kind: 'newest', limit: 1 + random.below(50), pages: 3 },
      { kind: 'receipt', user: creator, plant },
      { kind: 'checkpoint' },
    ]);
  }

  /** Sends a request, and records it with its response. */
  record(instance: Instance, request: Request): Promise<Result> {
    return this.#options.history.record(instance, request, () => this.#send(instance, request));
  }

  async #send(instance: Instance, request: Request): Promise<Result> {
    try {
      if (request.kind === 'create') return await this.#create(instance, request);
      if (request.kind === 'list') return await this.#list(instance, request);
      if (request.kind === 'replay') return await this.#replay(instance, request);
      if (request.kind === 'newest') return await this.#newest(instance, request);
      if (request.kind === 'receipt') return await this.#receipt(instance, request);
      return await this.#checkpoint(instance);
    } catch (error) {
      if (error instanceof Failed) return error.result;
      if (error instanceof TypeError && error.message === 'terminated') return { error: 'cut' };
      return { error: 'malformed', why: String(error) };
    }
  }

  async #create(instance: Instance, { user, plant, name }: Request & { kind: 'create' }): Promise<Result> {
    const body = JSON.stringify({ id: plant, name });
    const headers = { 'content-type': 'application/json' };
    const response = await this.#fetch(instance, user, '/plants', { method: 'POST', body, headers });
    await response.arrayBuffer();
    return { created: this.#positionOf(response) };
  }

  async #list(instance: Instance, { user, named, limit }: Request & { kind: 'list' }): Promise<Result> {
    const headers: Record<string, string> =
      named === undefined || !this.#known ? {} : { 'log-position': this.#known.text };
    const names: string[] = [];
    let position: bigint | undefined;
    for (let path = limit === undefined ? '/plants' : `/plants?limit=${limit}`; path !== ''; ) {
      const response = await this.#fetch(instance, user, path, { headers });
      position ??= this.#positionOf(response);
      for (const plant of (await response.json()) as { name: string }[]) names.push(plant.name);
      path = nextPage(response);
    }
    return { names, position: position ?? 0n };
  }

  async #replay(instance: Instance, { after }: Request & { kind: 'replay' }): Promise<Result> {
    const response = await this.#audit(instance, after === 0n ? '/events' : `/events?after=${after}`);
    const replayed = positionsIn(await response.text());
    const [size, root] = response.headers.get('checkpoint')?.split(' ') ?? [];
    return { replayed, head: root === undefined ? undefined : { size: Number(size), root: toHex(root) } };
  }

  async #newest(instance: Instance, { limit, pages }: Request & { kind: 'newest' }): Promise<Result> {
    const newest: bigint[] = [];
    let path = `/events?order=descending&limit=${limit}`;
    for (let page = 0; page < pages && path !== ''; page++) {
      const response = await this.#audit(instance, path);
      newest.push(...positionsIn(await response.text()));
      path = nextPage(response);
    }
    return { newest, isEnd: path === '' };
  }

  async #receipt(instance: Instance, { user, plant }: Request & { kind: 'receipt' }): Promise<Result> {
    const response = await this.#fetch(instance, user, `/proofs/plants?id=${plant}`);
    const { index, event, checkpoint } = verifyTlogProof(await response.text(), this.#options.vkey);
    return { receipt: { index, stream: event.stream, head: headOf(checkpoint) } };
  }

  async #checkpoint(instance: Instance): Promise<Result> {
    const response = await this.#audit(instance, '/checkpoint');
    return { signed: headOf(verifyCheckpoint(await response.text(), this.#options.vkey)) };
  }

  #audit(instance: Instance, path: string): Promise<Response> {
    return this.#fetch(instance, 'carol', path, { scope: 'audit' });
  }

  /** @throws Failed */
  async #fetch(instance: Instance, ...request: Parameters<Instance['request']>): Promise<Response> {
    const response = await instance.request(...request).catch((error) => {
      throw new Failed('disconnected', { cause: error });
    });
    if (response.status === 200) return response;
    const { error } = (await response.json()) as { error: number };
    throw new Failed(error);
  }

  /** The position of a response, which the client knows of from now on. */
  #positionOf({ headers }: Response): bigint {
    const text = headers.get('log-position') ?? '0';
    const position = BigInt(text.split('.').at(-1) ?? '0');
    if (position > (this.#known?.position ?? 0n)) this.#known = { text, position };
    return position;
  }
}

const isUnavailable = (result: Result): boolean =>
  'error' in result && ['disconnected', 'cut', 50301, 50302].includes(result.error);

const nextPage = ({ headers }: Response): string =>
  headers.get('link')?.replace(/^<(.+)>; rel="next"$/, '/$1') ?? '';

const positionsIn = (lines: string): bigint[] =>
  lines
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => BigInt(JSON.parse(line).position));

const toHex = (base64: string): string => Buffer.from(base64, 'base64').toString('hex');
const headOf = ({ size, root }: TreeHead): TreeHead => ({ size, root });
