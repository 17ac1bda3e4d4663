import { type EventLog, type Position, type ReadTo, type RecordedEvent, START } from '../eventStore.ts';

/** How far a view has come: the position and ID of an event, in the log with this ID. */
export type ViewCheckpoint = Readonly<{ logId: string; position: Position; eventId: string }>;

/** The checkpoint of an empty view of no log. */
export const NO_CHECKPOINT: ViewCheckpoint = { logId: '', position: START, eventId: '' };

/** The view's file was damaged, and is removed: the view has to be reset and rebuilt. */
export class ViewDamaged extends Error {
  override readonly name = 'ViewDamaged';
}

/**
 * A view as its follower knows it: a fold of the log. Applied events are kept in memory until they are saved
 * together with the checkpoint, so what a crash loses is applied again.
 */
export interface View {
  /** As it is called in logs and messages. */
  readonly name: string;
  /** As it is called in messages for clients. */
  readonly title: string;
  /** The last event applied, whether it is saved or not. */
  readonly applied: ViewCheckpoint;
  /** Events applied that are not known to be saved. */
  readonly unsaved: number;
  /** The length of the JSON of their rows, in UTF-16 code units. */
  readonly unsavedCharacters: number;
  /** Why the view's file had to be replaced by an empty one; undefined if it was not. */
  readonly replaced: string | undefined;
  /** Called when the file turns out to be damaged. It is removed, so the view has to be reset and rebuilt. */
  onDamage: () => void;
  /** Applies events in log order, except those in `skip`. @throws InvalidEvent, with all before it applied */
  apply(events: readonly RecordedEvent[], skip: ReadonlySet<string>): void;
  /** Before following: what contradicts a log that has the event at the checkpoint. @throws StoreUnavailable */
  mismatch?(log: EventLog): Promise<string | undefined>;
  /** Before a reset, copies the view's file, if it is evidence of what the log was; returns the copy's name. */
  keepCopy?(): string | undefined;
  /** How far the log was read, if that is known to be further than the last event applied. Saved with the checkpoint. */
  readTo: ReadTo | undefined;
  /** Saves the applied events and the checkpoint in one transaction; others can be applied meanwhile. */
  save(): Promise<void>;
  /** Empties the view; from now on it belongs to the log with this ID. */
  reset(logId: string): Promise<void>;
  /** Saves, and closes the file. */
  close(): Promise<void>;
}
