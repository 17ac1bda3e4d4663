import { mkdirSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { Random } from '@event-sourced/testing/random';
import type { Step } from './diskTrace.ts';

// A disk that loses its power. A file's content and size are certain after an fsync of the file, an entry of
// a directory after an fsync of the directory. Of what came later, the system has written back any part: each
// sector, each size and each entry on its own.

/** How a power cut treats what was not synced. */
export type Cut = {
  /** The power fails when the trace has so many lines. */
  line: number;
  /** Bytes that the disk writes at once. */
  sectorBytes: number;
  /** How likely a sector or a size is written back after each write, and an entry after each change. */
  writeBack: { content: number; entries: number };
  random: Pick<Random, 'next'>;
  /** Which syncs do nothing. */
  isIgnored?: (sync: Step) => boolean;
};

type Chance = (kind: keyof Cut['writeBack']) => boolean;

/** Bytes with a size; bytes beyond the size are zero, or not on disk yet. */
class Content {
  bytes = Buffer.alloc(0);
  size = 0;

  reserve(bytes: number): void {
    if (this.bytes.length >= bytes) return;
    this.bytes = Buffer.concat([this.bytes], Math.max(bytes, 2 * this.bytes.length));
  }

  truncate(size: number): void {
    this.bytes.fill(0, size);
    this.size = size;
  }

  visible(): Buffer {
    this.reserve(this.size);
    return this.bytes.subarray(0, this.size);
  }
}

class File {
  /** What the processes read. */
  readonly cached = new Content();
  readonly onDisk = new Content();
  #dirty: { start: number; end: number }[] = [];
  readonly #sectorBytes: number;

  constructor(sectorBytes: number) {
    this.#sectorBytes = sectorBytes;
  }

  write(bytes: Buffer, at: number, isWrittenBack: Chance): void {
    const { cached, onDisk } = this;
    cached.reserve(at + bytes.length);
    bytes.copy(cached.bytes, at);
    cached.size = Math.max(cached.size, at + bytes.length);
    const end = at + bytes.length;
    this.#dirty.push({ start: at, end });
    for (let sector = Math.floor(at / this.#sectorBytes); sector * this.#sectorBytes < end; sector++)
      if (isWrittenBack('content'))
        this.#writeBack(sector * this.#sectorBytes, (sector + 1) * this.#sectorBytes);
    if (isWrittenBack('content')) onDisk.size = cached.size;
  }

  truncate(size: number, isWrittenBack: Chance): void {
    if (size < this.cached.size) this.#dirty.push({ start: size, end: this.cached.size });
    this.cached.truncate(size);
    if (isWrittenBack('content')) this.onDisk.truncate(size);
  }

  sync(): void {
    for (const { start, end } of this.#dirty) this.#writeBack(start, end);
    this.#dirty = [];
    this.onDisk.truncate(this.cached.size);
  }

  #writeBack(start: number, end: number): void {
    const { cached, onDisk } = this;
    onDisk.reserve(end);
    onDisk.bytes.fill(0, start, end);
    cached.bytes.copy(onDisk.bytes, start, start, end);
  }
}

class Directory {
  readonly cached = new Map<string, File | Directory>();
  readonly onDisk = new Map<string, File | Directory>();

  /** Entries that change at once. */
  change(entries: Record<string, File | Directory | undefined>, isWrittenBack: Chance): void {
    const changed = Object.entries(entries);
    for (const [name, node] of changed) set(this.cached, name, node);
    if (isWrittenBack('entries')) for (const [name] of changed) set(this.onDisk, name, this.cached.get(name));
  }

  sync(): void {
    this.onDisk.clear();
    for (const [name, node] of this.cached) this.onDisk.set(name, node);
  }
}

function set<V>(map: Map<string, V>, name: string, value: V | undefined): void {
  if (value === undefined) map.delete(name);
  else map.set(name, value);
}

/** The content of a directory: the bytes of each file by its path. */
type Files = Map<string, Buffer>;

/** The disk below a directory that is empty and durable at first. */
export class Disk {
  readonly #root: string;
  readonly #cut: Cut;
  readonly #top = new Directory();
  readonly #lastSync = new Map<string, Step>();

  /** The disk when its power is cut. */
  constructor(root: string, steps: readonly Step[], cut: Cut) {
    this.#root = root;
    this.#cut = cut;
    const begun = steps.filter(({ from }) => from < cut.line);
    for (const step of begun)
      if (step.call === 'sync' && this.#isDone(step)) this.#lastSync.set(step.path, step);
    for (const step of begun) this.#apply(step);
  }

  /** What the processes read before the power cut. */
  cached(): Files {
    return filesIn(this.#top, 'cached');
  }

  /** What is there after it. */
  onDisk(): Files {
    return filesIn(this.#top, 'onDisk');
  }

  #apply(step: Step): void {
    if (step.call === 'acknowledge') return;
    const { path } = step;
    if (step.call === 'sync') {
      if (this.#isDone(step)) this.#find(path)?.sync();
      return;
    }
    // What a later sync writes back anyway takes no random numbers: they are most of the time.
    const isSyncedLater = step.to < (this.#lastSync.get(path)?.from ?? 0);
    const isWrittenBack: Chance = (kind) =>
      !(isSyncedLater && kind === 'content') && this.#cut.random.next() < this.#cut.writeBack[kind];
    const directory = this.#find(dirname(path)) as Directory;
    const name = basename(path);
    const node = directory.cached.get(name);
    switch (step.call) {
      case 'create':
        if (!node) directory.change({ [name]: new File(this.#cut.sectorBytes) }, isWrittenBack);
        break;
      case 'mkdir':
        directory.change({ [name]: new Directory() }, isWrittenBack);
        break;
      case 'unlink':
        directory.change({ [name]: undefined }, isWrittenBack);
        break;
      case 'rename':
        directory.change({ [name]: undefined, [basename(step.target)]: node }, isWrittenBack);
        break;
      case 'link':
        directory.change({ [basename(step.target)]: node }, isWrittenBack);
        break;
      case 'truncate':
        asFile(node, path).truncate(step.size, isWrittenBack);
        break;
      case 'write': {
        const file = asFile(node, path);
        file.write(step.bytes, step.at === 'end' ? file.cached.size : step.at, isWrittenBack);
      }
    }
  }

  #isDone(sync: Step): boolean {
    return sync.to < this.#cut.line && !this.#cut.isIgnored?.(sync);
  }

  #find(path: string): File | Directory | undefined {
    let node: File | Directory | undefined = this.#top;
    for (const name of path.slice(this.#root.length).split('/').filter(Boolean))
      node = node instanceof Directory ? node.cached.get(name) : undefined;
    return node;
  }
}

function asFile(node: File | Directory | undefined, path: string): File {
  if (node instanceof File) return node;
  throw new Error(`${path} is no file`);
}

function filesIn(directory: Directory, state: 'cached' | 'onDisk', path = ''): Files {
  const files: Files = new Map();
  for (const [name, node] of directory[state]) {
    const below = node instanceof File ? [['', node[state].visible()] as const] : filesIn(node, state);
    for (const [rest, bytes] of below) files.set(join(path, name, rest), bytes);
  }
  return files;
}

/** Writes files into a directory, as their owner has them. */
export function writeFiles(dir: string, files: Files): void {
  for (const [path, bytes] of files) {
    mkdirSync(dirname(join(dir, path)), { recursive: true, mode: 0o700 });
    writeFileSync(join(dir, path), bytes, { mode: 0o600 });
  }
}
