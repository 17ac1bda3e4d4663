/**
 * `malformed`: the text shows nothing. `unsigned`: it has no signature of the expected key, or is of another log.
 * `contradiction`: its signature does not verify under the key that it names.
 */
type Kind = 'malformed' | 'unsigned' | 'contradiction';

/** A text is malformed, is not signed by the expected key, or does not prove what it states. */
export class NotVerified extends Error {
  override readonly name = 'NotVerified';
  readonly kind: Kind;
  constructor(message: string, kind: Kind = 'malformed') {
    super(message);
    this.kind = kind;
  }
}
