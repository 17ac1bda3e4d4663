import { Type } from 'typebox';

const LARGEST = 2_147_483_647;

/** The query parameter `limit`: text that is a number of things, in plain digits. */
export const limitOf = (things: string) =>
  Type.Refine(
    Type.Unsafe<string>({
      format: 'int32',
      minimum: 0,
      description: `The most ${things} to answer with; absent: all.`,
    }),
    (limit) => typeof limit === 'string' && /^(0|[1-9]\d{0,9})$/.test(limit) && Number(limit) <= LARGEST,
    () => `must be given once, as an integer from 0 to ${LARGEST} in plain digits`,
  );
