import type { VerifierKey } from '../notes/signedNote.ts';
import type { Policy } from '../witness/policy.ts';
import type { LogClient } from './logClient.ts';
import type { Received } from './received.ts';
import type { Reread } from './reread.ts';
import type { State } from './state.ts';

/** One check of a log. */
export type Check = {
  client: Pick<LogClient, 'checkpoint' | 'latest' | 'tile' | 'entries'>;
  key: VerifierKey;
  state: State;
  /** Checkpoints from others; this log must be consistent with them. */
  known?: readonly Received[];
  /** The witnesses that must have cosigned a checkpoint. */
  policy?: Policy | undefined;
  /** Fetches the checkpoint of this log from a witness. @throws NotChecked */
  witnessCheckpoint?: (url: string) => Promise<Buffer>;
  /** The maximum age of the cosignatures of a quorum, or of the last growth. */
  staleAfterMs?: number | undefined;
  /** Whether the log must grow even with a policy. */
  expectGrowth?: boolean | undefined;
  /** Whether to compare all events with the tree, not only new events. */
  all?: boolean | undefined;
  now: () => Date;
  sleep: (ms: number) => Promise<void>;
  /** Called with each new checkpoint before anything else is fetched, so that it is not lost. */
  onReceived: (state: State) => Promise<void>;
  /** Called with notices that are not alarms, such as an unavailable witness. */
  onNotice: (line: string) => void;
  reread: Reread;
};
