import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import { leafHash, MerkleTree } from '../../tlog/src/merkle/merkleTree.ts';
import { parseTilePath, type Tile } from '../../tlog/src/merkle/tiles.ts';
import type { TreeHead } from '../../tlog/src/merkle/treeHead.ts';
import { formatEntryBundle } from '../../tlog/src/notes/entryBundle.ts';
import { signCheckpoint, toVerifierKey } from '../../tlog/src/sign/signCheckpoint.ts';
import { keyNamed } from '../../tlog/test/notes/keys.ts';
import { cosign } from '../../tlog/test/witness/cosign.ts';
import { NotChecked } from '../src/notChecked.ts';

export const ORIGIN = 'plants.example/log';
export const KEY = keyNamed('log');
export const VERIFIER_KEY = toVerifierKey(ORIGIN, KEY);
/** Before this time, all events of fake logs have occurred. */
export const NOW = new Date('2026-06-01T00:00:00Z');

/** The entry of a plant's event, a minute after the previous one. */
export function toEntry(number: number, { name = 'Fern', at = '', user = 'alice' } = {}): string {
  const id = `${number.toString(16).padStart(8, '0')}-0000-7000-8000-000000000000`;
  const occurredAt = at || new Date(Date.parse('2026-01-01T00:00:00Z') + number * 60_000).toISOString();
  const data = `{"id":"${number}","name":${JSON.stringify(name)},"user":"${user}"}`;
  const metadata = `{"$correlationId":"c","occurredAt":"${occurredAt}","schemaVersion":1}`;
  return `{"data":${data},"id":"${id}","metadata":${metadata},"revision":"0","stream":"plant-${user}/${number}","type":"PlantCreated"}`;
}

export const entries = (count: number): string[] => Array.from({ length: count }, (_, i) => toEntry(i + 1));

/** A checkpoint with the cosignatures of these witnesses, made so many seconds before now. */
export function cosigned(note: string, names: readonly string[], secondsAgo = 0, now = NOW): string {
  const time = Math.floor(now.getTime() / 1_000) - secondsAgo;
  return note + names.map((name) => cosign(note, { name, key: keyNamed(name) }, time)).join('');
}

/** A transparency log in memory, which can lie: each method may be replaced. It serves the tiles of any size. */
export class FakeLog {
  readonly log: readonly Buffer[];
  /** The number of entries that it signs. */
  size: number;
  /** The hashes of each level of tiles. */
  readonly #levels: Buffer[][] = [[], [], []];
  /** The paths of the tiles that were read. */
  readonly read: string[] = [];

  constructor(log: readonly (string | Buffer)[]) {
    this.log = log.map((entry) => Buffer.from(entry as string));
    this.size = log.length;
    const tree = new MerkleTree();
    for (const entry of this.log)
      tree.append(leafHash(entry), (root, height) => {
        if (height % 8 === 0) this.#levels[height / 8]?.push(Buffer.from(root, 'hex'));
      });
  }

  /** The size and root of its first events, or of all that it signs. */
  head(size = this.size): TreeHead {
    const tree = new MerkleTree();
    for (const entry of this.log.slice(0, size)) tree.append(leafHash(entry));
    return { size, root: tree.root() };
  }

  async checkpoint(): Promise<Buffer> {
    return Buffer.from(signCheckpoint(this.head(), { origin: ORIGIN, key: KEY }));
  }

  async tile({ level, index, width }: Tile): Promise<Uint8Array> {
    this.read.push(`${level}/${index}`);
    const hashes = this.#levels[level]?.slice(index * 256, index * 256 + width) ?? [];
    if (hashes.length < width) throw new NotChecked('404', true);
    return Buffer.concat(hashes);
  }

  async entries(index: number, width: number): Promise<Uint8Array> {
    this.read.push(`entries/${index}`);
    return formatEntryBundle(this.log.slice(256 * index, 256 * index + width));
  }

  /** A log of others has no events. */
  async *events(_query: { after?: string; type?: string }): AsyncGenerator<string> {
    yield* await Promise.reject<string[]>(new NotChecked('404', true));
  }
}

/** Serves a log over HTTP to holders of the token, or as public files without media types; `current` may be replaced by another log or an error. */
export async function serve(
  current: FakeLog | ((response: ServerResponse) => void),
  { isPublic = false } = {},
): Promise<{
  url: string;
  serve: (what: FakeLog | ((response: ServerResponse) => void)) => void;
  requests: string[];
  headers: IncomingHttpHeaders[];
}> {
  let served = current;
  const requests: string[] = [];
  const received: IncomingHttpHeaders[] = [];
  const server = createServer(async ({ url = '', headers }, response) => {
    requests.push(url);
    received.push(headers);
    if (typeof served === 'function') return served(response);
    if (!isPublic && headers.authorization !== 'Bearer secret')
      return void response.writeHead(401).end('{"message":"No token."}');
    const tile = parseTilePath(url.slice(1));
    if (url === '/checkpoint')
      response
        .setHeader('content-type', isPublic ? 'application/octet-stream' : 'text/plain; charset=utf-8')
        .end(await served.checkpoint());
    else if (url.startsWith('/events?')) {
      const query = Object.fromEntries(new URL(url, 'http://log').searchParams);
      const lines = await Array.fromAsync(served.events(query)).catch(() => undefined);
      if (!lines) return void response.writeHead(404).end();
      response
        .setHeader('content-type', 'application/x-ndjson')
        .end([...lines, '{"end":"0"}'].map((line) => `${line}\n`).join(''));
    } else if (!tile) response.writeHead(404).end();
    else {
      const { level, index, width } = tile;
      const reading =
        level === 'entries' ? served.entries(index, width) : served.tile({ level, index, width });
      const bytes = await reading.catch(() => undefined);
      if (!bytes) return void response.writeHead(404).end('{"message":"No such tile."}');
      response.setHeader('content-type', 'application/octet-stream').end(bytes);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    serve: (what) => {
      served = what;
    },
    requests,
    headers: received,
  };
}
