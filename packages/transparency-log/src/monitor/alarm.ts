/** What is wrong with the log; docs/alarms.md explains each. */
type AlarmKind = 'invalid checkpoint' | 'fork' | 'rollback' | 'mismatch' | 'withheld';

/** A file that shows what the message of an alarm states. */
export type Evidence = { name: string; content: Buffer };

/** The log contradicts what it has signed, does not show it, or the checkpoint is not its own. */
export class Alarm extends Error {
  override readonly name = 'Alarm';
  readonly kind: AlarmKind;
  readonly evidence: readonly Evidence[];
  /** SIZE:ROOT of the log from which a consistency proof among the evidence starts. */
  readonly provenFrom: string | undefined;

  constructor(kind: AlarmKind, message: string, evidence: readonly Evidence[], provenFrom?: string) {
    super(`${kind}: ${message}`);
    this.kind = kind;
    this.evidence = evidence;
    this.provenFrom = provenFrom;
  }

  /** The commands by which others verify the evidence that is signed, in its directory: docs/alarms.md. */
  get commands(): string[] {
    if (this.kind === 'invalid checkpoint') return [];
    const checkpoints = this.evidence.map(({ name }) => name).filter((name) => name.endsWith('.checkpoint'));
    return [
      ...checkpoints.flatMap((name) => [`python3 signature.py "$KEY" < ${name}`, VERIFY]),
      ...(this.provenFrom ? [`python3 consistency.py ${this.provenFrom} < consistency.proof`] : []),
    ];
  }
}

const VERIFY =
  'openssl pkeyutl -verify -pubin -keyform DER -inkey key.der -rawin -in signed.bin -sigfile signature.bin';
