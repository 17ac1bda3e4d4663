/** What is wrong with the log; docs/auditing.md explains each. */
export type AlarmKind = 'invalid checkpoint' | 'fork' | 'rollback' | 'mismatch' | 'withheld';

/** A file that shows what the message of an alarm states. */
export type Evidence = { name: string; content: Buffer };

/** The log contradicts what it has signed, does not show it, or the checkpoint is not its own. */
export class Alarm extends Error {
  override readonly name = 'Alarm';
  readonly kind: AlarmKind;
  readonly evidence: readonly Evidence[];

  constructor(kind: AlarmKind, message: string, evidence: readonly Evidence[]) {
    super(`${kind}: ${message}`);
    this.kind = kind;
    this.evidence = evidence;
  }
}

/** Tiles or entries do not match the root that the log has signed. They are the evidence, by their paths. */
export class Mismatch extends Error {
  override readonly name = 'Mismatch';
  readonly evidence: readonly Evidence[];

  constructor(message: string, received: Iterable<readonly [path: string, content: Buffer]>) {
    super(message);
    this.evidence = [...received].map(([path, content]) => ({ name: path.replaceAll('/', '-'), content }));
  }
}
