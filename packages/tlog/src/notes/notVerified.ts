/** A text is malformed, is not signed by the expected key, or does not prove what it states. */
export class NotVerified extends Error {
  override readonly name = 'NotVerified';
}
