import { Type } from 'typebox';

const MAX_LIMIT = 2_147_483_647;

/** A rule for a text; it completes the sentence "NAME must be …". */
export type TextRule = { isValid: (text: string) => boolean; rule: string };

/** The schema of a text that must follow a rule. */
export const textSchema = (
  { isValid, rule }: TextRule,
  options: { description: string; examples?: [string] },
) =>
  Type.Refine(
    Type.Unsafe<string>({ type: 'string', ...options }),
    (value) => typeof value === 'string' && isValid(value),
    () => `must be ${rule}`,
  );

/** The schema of the query parameter `limit`: a 32-bit integer in decimal digits, as text. */
export const limitSchema = (items: string) =>
  Type.Refine(
    Type.Unsafe<string>({
      format: 'int32',
      minimum: 0,
      examples: [100],
      description: `The maximum number of ${items}; without it, all.`,
    }),
    (limit) => typeof limit === 'string' && /^(0|[1-9]\d{0,9})$/.test(limit) && Number(limit) <= MAX_LIMIT,
    (limit) =>
      Array.isArray(limit)
        ? 'must be given once'
        : `must be an integer from 0 to ${MAX_LIMIT}, in decimal digits`,
  );
