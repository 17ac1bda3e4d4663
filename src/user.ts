/** Users are 1 to this many UTF-16 code units long. */
const LONGEST = 255;

/** Whether a token's subject may be a user: not too long, well-formed Unicode, no control characters. */
export function isUser(name: unknown): name is string {
  return (
    typeof name === 'string' &&
    name.length > 0 &&
    name.length <= LONGEST &&
    name.isWellFormed() &&
    !/\p{Cc}/u.test(name)
  );
}
