import { existsSync } from 'node:fs';
import { leafText } from '../../src/audit/leaf.ts';
import { fileIdentity } from '../../src/disk/fileIdentity.ts';
import type { EventLog, Position, ReadTo, RecordedEvent } from '../../src/eventStore/eventStore.ts';
import { leafHash } from '../../src/merkle/merkleTree.ts';
import type { View, ViewCheckpoint } from '../view.ts';
import { isDamage } from '../viewDatabase.ts';
import { ViewDamaged } from '../viewFile.ts';
import { NO_CHECKPOINT, type WriteResult } from '../viewProtocol.ts';
import { ViewWriter } from '../viewWriter.ts';
import { lastTileMismatch } from './lastTileMismatch.ts';
import { LogTiles } from './logTiles.ts';
import { copyTreeFile, type LoadedTree, loadTree, MERKLE_TREE, rowOf, TilesDiffer } from './treeFile.ts';

const hashOfLeaf = (event: RecordedEvent): string => leafHash(leafText(event).text);

/** The saved tree: its size and root, up to a position of the log with this ID. */
export type SavedTree = { logId: string; position: Position; size: number; root: string };

/**
 * The view: the Merkle tree over all events of the log, also those that other views skip. It writes its file
 * on the thread that uses it. Its root is never computed from bytes that are read later than at its start,
 * when they are checked.
 */
export class MerkleTreeView implements View {
  readonly name = 'merkleTree';
  readonly title = 'Merkle tree';
  onDamage = () => {};
  readTo: ReadTo | undefined;
  #savedReadTo: ReadTo | undefined;
  /** Called when the tree has been saved. */
  onSaved = () => {};
  /** Called before the tree is emptied, to restart from the beginning: what was saved must not be read any more. */
  onReset = () => {};
  /** As of the last save. */
  saved: SavedTree;
  readonly unsavedCharacters = 0;
  unsaved = 0;
  replaced: string | undefined;
  readonly #file: string;
  readonly #hashOf: typeof hashOfLeaf;
  readonly #writer: ViewWriter;
  /** Of the open file. */
  #identity: string | undefined;
  #tiles: LogTiles;
  #logId: string;
  #eventId: string;
  #isClosed = false;

  /** Opens the view in a file. @throws Error with a message for the operator */
  static async open(file: string, hashOf = hashOfLeaf): Promise<MerkleTreeView> {
    return new MerkleTreeView(file, hashOf);
  }

  private constructor(file: string, hashOf: typeof hashOfLeaf) {
    this.#file = file;
    this.#hashOf = hashOf;
    this.#writer = new ViewWriter(file, MERKLE_TREE);
    this.replaced = this.#writer.replaced;
    this.readTo = this.#savedReadTo = this.#writer.readTo;
    const { last, checkpoint } = this.#load();
    this.#tiles = new LogTiles(last, checkpoint.position);
    this.#logId = checkpoint.logId;
    this.#eventId = checkpoint.eventId;
    this.#identity = fileIdentity(file);
    this.saved = this.#current;
  }

  get applied(): ViewCheckpoint {
    return { logId: this.#logId, position: this.#tiles.position, eventId: this.#eventId };
  }

  /** Every event is a leaf, so `skip` has no effect. */
  apply(events: readonly RecordedEvent[]): void {
    for (const event of events) {
      this.#tiles.append(this.#hashOf(event), event.position);
      this.#eventId = event.id;
    }
    this.unsaved += events.length;
  }

  async save(): Promise<void> {
    const { readTo } = this;
    if (this.unsaved === 0 && readTo === this.#savedReadTo) return;
    this.#assertInPlace();
    this.#writer.add(this.#tiles.takeChanged().map(rowOf));
    this.#done(this.#writer.handle({ save: this.applied, readTo }));
    this.unsaved = 0;
    this.#savedReadTo = readTo;
    this.saved = this.#current;
    this.onSaved();
  }

  async reset(logId: string): Promise<void> {
    this.onReset();
    this.#done(this.#writer.handle({ reset: logId }));
    this.#identity = fileIdentity(this.#file);
    this.#clear();
    this.#logId = logId;
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
      if (isDamage(error)) this.discard((error as Error).message);
      throw error;
    }
  }

  mismatch(log: EventLog): Promise<string | undefined> {
    return lastTileMismatch(this.#tiles, log);
  }

  /** Removes the file, which turned out to be damaged. */
  discard(reason: string): void {
    this.#writer.handle({ discard: true });
    this.#forget(reason);
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
    return { logId, position, size: this.#tiles.size, root: this.#tiles.root() };
  }

  /** The tree of the file; if its tiles contradict each other, the file is removed. */
  #load(): LoadedTree {
    try {
      return loadTree(this.#file, 'all');
    } catch (error) {
      if (!isDamage(error) && !(error instanceof TilesDiffer)) {
        this.#writer.close();
        throw error;
      }
      this.replaced = (error as Error).message;
      this.#writer.handle({ discard: true });
      return { last: [], checkpoint: NO_CHECKPOINT };
    }
  }

  /** @throws ViewDamaged if the file is not the one that was opened */
  #assertInPlace(): void {
    if (fileIdentity(this.#file) === this.#identity) return;
    this.#writer.handle({ discard: true });
    throw this.#forget('its file was deleted or replaced while the service was running');
  }

  /** @throws ViewDamaged, or why the file cannot be written */
  #done({ damaged, failed }: WriteResult): void {
    if (damaged !== undefined) throw this.#forget(damaged);
    if (failed) throw failed;
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
    this.#tiles = new LogTiles();
    this.#logId = NO_CHECKPOINT.logId;
    this.#eventId = NO_CHECKPOINT.eventId;
    this.readTo = undefined;
    this.unsaved = 0;
  }
}
