import { existsSync } from 'node:fs';
import {
  assertReached,
  type EventLog,
  type Position,
  type ReadTo,
  type RecordedEvent,
} from '@event-sourced/event-log';
import { fileIdentity } from '@event-sourced/event-log/disk';
import type { View } from '@event-sourced/event-log/views';
import { NO_CHECKPOINT, ViewDamaged, ViewWriter } from '@event-sourced/event-log/views';
import { leafText } from '../entries/leaf.ts';
import { leafHash } from '../merkle/merkleTree.ts';
import { HASH_BYTES } from '../merkle/tiles.ts';
import { TileWriter } from '../merkle/tileWriter.ts';
import { copyTreeFile, damageOf, loadTree, MERKLE_TREE, rowOf } from './treeFile.ts';

const PAGE_SIZE = 500;
const leafOf = (event: RecordedEvent): string => leafHash(leafText(event).text);

/** The saved tree: its size and root, up to a position of the log with this ID. */
export type SavedTree = { logId: string; position: Position; size: number; root: string };

/**
 * The view: the Merkle tree over all events of the log, also those that other views skip. It writes its file
 * on the thread that uses it. Its root is never computed from bytes that are read after its start, when they
 * are checked.
 */
export class MerkleTreeView implements View {
  readonly name = 'merkleTree';
  readonly title = 'Merkle tree';
  onDamage = () => {};
  applied = NO_CHECKPOINT;
  readTo: ReadTo | undefined;
  #savedReadTo: ReadTo | undefined;
  onSaved = () => {};
  /** Called before the tree is emptied, to restart from the beginning: what was saved must not be read any more. */
  onReset = () => {};
  saved: SavedTree;
  readonly unsavedCharacters = 0;
  unsaved = 0;
  replaced: string | undefined;
  readonly #file: string;
  readonly #writer: ViewWriter;
  #identity: string | undefined;
  #tree = new TileWriter();
  #isClosed = false;

  /** Opens the view in a file. @throws Error with a message for the operator */
  static async open(file: string): Promise<MerkleTreeView> {
    const view = new MerkleTreeView(file);
    await view.#load();
    return view;
  }

  private constructor(file: string) {
    this.#file = file;
    this.#writer = new ViewWriter(file, MERKLE_TREE);
    this.replaced = this.#writer.replaced;
    this.readTo = this.#savedReadTo = this.#writer.readTo;
    this.saved = this.#current;
  }

  /** Every event is a leaf, so `skip` has no effect. */
  apply(events: readonly RecordedEvent[]): void {
    for (const event of events) {
      this.#tree.append(leafOf(event), event.position);
      this.applied = { logId: this.applied.logId, position: event.position, eventId: event.id };
    }
    this.unsaved += events.length;
  }

  async save(): Promise<void> {
    const { readTo } = this;
    if (this.unsaved === 0 && readTo === this.#savedReadTo) return;
    if (fileIdentity(this.#file) !== this.#identity)
      throw this.discard('its file was deleted or replaced while the service was running');
    this.#writer.add(this.#tree.takeChanged().map(rowOf));
    this.#assertUndamaged(this.#writer.save(this.applied, readTo));
    this.unsaved = 0;
    this.#savedReadTo = readTo;
    this.saved = this.#current;
    this.onSaved();
  }

  async reset(logId: string): Promise<void> {
    this.onReset();
    this.#assertUndamaged(this.#writer.reset(logId));
    this.#identity = fileIdentity(this.#file);
    this.#clear();
    this.applied = { ...NO_CHECKPOINT, logId };
    this.saved = this.#current;
    this.onSaved();
  }

  keepCopy(): string | undefined {
    this.onReset();
    if (!existsSync(this.#file)) return undefined;
    const copy = `${this.#file}.mismatch`;
    try {
      copyTreeFile(this.#file, copy);
      return copy;
    } catch (error) {
      const damage = damageOf(error);
      if (damage !== undefined) this.discard(damage);
      throw error;
    }
  }

  /** Compares the last tile of level 0 with the events of the log. */
  async mismatch(log: EventLog): Promise<string | undefined> {
    const { position, lastTile } = this.#tree;
    const leaves: string[] = [];
    for (let after = lastTile.startsAfter; after < position; ) {
      const page = await log.readAll({ after, limit: PAGE_SIZE });
      for (const event of page.events) if (event.position <= position) leaves.push(leafOf(event));
      after = page.position;
      if (page.isEnd) assertReached(position, after);
    }
    return leaves.join('') === lastTile.hashes.toString('hex')
      ? undefined
      : `its last ${lastTile.hashes.length / HASH_BYTES} leaves are not those of the log`;
  }

  discard(reason: string): ViewDamaged {
    this.#writer.discard();
    return this.#forget(reason);
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    try {
      await this.save();
    } finally {
      this.#writer.close();
    }
  }

  get #current(): SavedTree {
    const { logId, position } = this.applied;
    return { logId, position, size: this.#tree.size, root: this.#tree.root() };
  }

  /** Takes the tree of the file; if its tiles contradict each other, the file is removed. */
  async #load(): Promise<void> {
    try {
      ({ tree: this.#tree, checkpoint: this.applied } = await loadTree(this.#file));
    } catch (error) {
      this.replaced = damageOf(error);
      if (this.replaced === undefined) {
        this.#writer.close();
        throw error;
      }
      this.#writer.discard();
    }
    this.#identity = fileIdentity(this.#file);
    this.saved = this.#current;
  }

  /** @throws ViewDamaged */
  #assertUndamaged(damage: string | undefined): void {
    if (damage !== undefined) throw this.#forget(damage);
  }

  #forget(reason: string): ViewDamaged {
    this.replaced = reason;
    this.onReset();
    this.#clear();
    this.saved = this.#current;
    this.onDamage();
    return new ViewDamaged(`the view ${this.#file} was damaged and is being rebuilt`);
  }

  #clear(): void {
    this.#tree = new TileWriter();
    this.applied = NO_CHECKPOINT;
    this.readTo = undefined;
    this.unsaved = 0;
  }
}
