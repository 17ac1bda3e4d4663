/** The log could not be checked now. This proves nothing: the next attempt may succeed. */
export class NotChecked extends Error {
  override readonly name = 'NotChecked';
  readonly exitCode = 2;
  /** Whether the log responded that the resource does not exist. */
  readonly isMissing: boolean;
  constructor(message: string, isMissing = false) {
    super(message);
    this.isMissing = isMissing;
  }
}
