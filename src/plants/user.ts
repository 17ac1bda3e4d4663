const MAX_LENGTH = 255;

/** The rule for a user name, for messages. */
export const USER_RULE = `1 to ${MAX_LENGTH} characters without control characters`;

/** Whether a token's subject is a valid user. */
export function isUser(name: unknown): name is string {
  return (
    typeof name === 'string' &&
    name.length > 0 &&
    name.length <= MAX_LENGTH &&
    name.isWellFormed() &&
    !/\p{Cc}/u.test(name)
  );
}
