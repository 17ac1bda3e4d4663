/** What is wrong with the log; docs/alarms.md explains each. */
export const ALARM_KINDS = [
  'invalid checkpoint',
  'not cosigned',
  'stale',
  'fork',
  'rollback',
  'mismatch',
  'withheld',
] as const;
export type AlarmKind = (typeof ALARM_KINDS)[number];

/** A file that shows what the message of an alarm states. */
export type Evidence = { name: string; content: Buffer };

/** The log contradicts what it has signed, does not show it, or the checkpoint is not its own. */
export class Alarm extends Error {
  override readonly name = 'Alarm';
  readonly kind: AlarmKind;
  readonly evidence: readonly Evidence[];
  /** The consistency proofs among the evidence, by name, and SIZE:ROOT of the log from which each starts. */
  readonly proofs: Readonly<Record<string, string>>;

  constructor(
    kind: AlarmKind,
    message: string,
    evidence: readonly Evidence[],
    proofs: Readonly<Record<string, string>> = {},
  ) {
    super(`${kind}: ${message}`);
    this.kind = kind;
    this.evidence = evidence;
    this.proofs = proofs;
  }

  /** The commands by which others verify the evidence that is signed, in its directory: docs/alarms.md. */
  get commands(): string[] {
    if (this.kind === 'invalid checkpoint') return [];
    const checkpoints = this.evidence.map(({ name }) => name).filter((name) => name.endsWith('.checkpoint'));
    return [
      ...checkpoints.flatMap((name) => [`python3 signature.py "$KEY" < ${name}`, VERIFY]),
      ...Object.entries(this.proofs).map(([name, from]) => `python3 consistency.py ${from} < ${name}`),
    ];
  }
}

const VERIFY =
  'openssl pkeyutl -verify -pubin -keyform DER -inkey key.der -rawin -in signed.bin -sigfile signature.bin';
