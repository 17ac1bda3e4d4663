import { Type } from 'typebox';

/** The schema of a text that must follow a rule; the rule completes the sentence "NAME must be …". */
export const textSchema = (
  isValid: (text: string) => boolean,
  rule: string,
  options: { description: string; examples?: [string] },
) =>
  Type.Refine(
    Type.Unsafe<string>({ type: 'string', ...options }),
    (value) => typeof value === 'string' && isValid(value),
    () => `must be ${rule}`,
  );
