import type { TileMismatch } from '@event-sourced/tlog';

/** The kinds of alarms; docs/alarms.md explains each one. */
type AlarmKind =
  | 'fork'
  | 'rollback'
  | 'invalid checkpoint'
  | 'not cosigned'
  | 'stale'
  | 'withheld'
  | 'mismatch'
  | 'unrecorded erasure'
  | 'false record'
  | 'unavailable';

/** A file with evidence for an alarm. `commands` verify it in its directory; see docs/alarms.md. */
export type Evidence = { name: string; content: Uint8Array; commands?: readonly string[] };

/** The log contradicts what it has signed, or does not show it. */
export class Alarm extends Error {
  override readonly name = 'Alarm';
  readonly kind: AlarmKind;
  readonly evidence: readonly Evidence[];

  constructor(kind: AlarmKind, message: string, evidence: readonly Evidence[] = []) {
    super(`${kind}: ${message}`);
    this.kind = kind;
    this.evidence = evidence;
  }
}

const VERIFY =
  'openssl pkeyutl -verify -pubin -keyform DER -inkey key.der -rawin -in signed.bin -sigfile signature.bin';

/** A checkpoint that the log has signed. */
const checkpointFile = (name: string, note: string): Evidence => ({
  name,
  content: Buffer.from(note),
  commands: [`python3 signature.py "$KEY" < ${name}`, VERIFY],
});

/** The checkpoint of an alarm, and an earlier one that it contradicts. */
export const checkpointFiles = (received: { note: string }, earlier?: { note: string }): Evidence[] => [
  ...(earlier ? [checkpointFile('earlier.checkpoint', earlier.note)] : []),
  checkpointFile('received.checkpoint', received.note),
];

/** Tiles or entries do not match the tree of a checkpoint. */
export function mismatch(checkpoint: { note: string }, { message, received }: TileMismatch): Alarm {
  const files = Array.from(received, ([path, content]) => ({ name: path.replaceAll('/', '-'), content }));
  return new Alarm('mismatch', message, [...checkpointFiles(checkpoint), ...files]);
}
