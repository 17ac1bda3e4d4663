import type { VerifierKey } from '@event-sourced/tlog';
import type { Policy } from '@event-sourced/tlog/witness';
import type { LogClient } from './logClient.ts';
import type { Received } from './received.ts';
import type { State } from './state.ts';

/** One check of a log. */
export type Check = {
  client: Pick<LogClient, 'checkpoint' | 'tile' | 'entries' | 'events'>;
  key: VerifierKey;
  state: State;
  /** Checkpoints from others; this log must be consistent with them. */
  known: readonly Received[];
  /** The witnesses that must have cosigned a checkpoint. */
  policy?: Policy | undefined;
  /** Fetches the checkpoint of this log from a witness. @throws NotChecked */
  witnessCheckpoint?: ((url: string) => Promise<Buffer>) | undefined;
  /** The maximum age of cosignatures, of growth, and of what the log has signed and not shown. */
  staleAfterMs?: number | undefined;
  /** Whether the log must grow. */
  expectGrowth?: boolean | undefined;
  /** Whether to read the events, too, for a log of this service. */
  events?: boolean | undefined;
  /** Whether to compare all entries and events, not only new ones. */
  all?: boolean | undefined;
  now: () => Date;
  sleep: (ms: number) => Promise<void>;
  /** Called with each new checkpoint before its tiles are fetched, so that it is not lost. It does not throw. */
  save: (state: State) => Promise<void>;
  /** Called with notices that are not alarms, such as an unavailable witness. */
  onNotice: (line: string) => void;
};
