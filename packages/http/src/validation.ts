import type { FastifySchemaCompiler } from 'fastify';
import { type TSchema, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import type { TLocalizedValidationError } from 'typebox/error';
import { HTTP_ERRORS, HttpError } from './errors.ts';

/** The query of a route that has no parameters. */
export const NO_PARAMETERS = Type.Object({});
/** Of a name that a client has sent, in a message. */
const MAX_NAME_LENGTH = 64;

/**
 * Validates with TypeBox, without coercion; a query has no parameters but those of its schema. The message names the
 * first eight invalid fields and their rules.
 */
export const validatorCompiler: FastifySchemaCompiler<TSchema> = ({ schema, httpPart }) => {
  const isQuery = httpPart === 'querystring';
  const known = isQuery ? Object.keys((schema as typeof NO_PARAMETERS).properties) : undefined;
  const compiled = Compile(isQuery ? { ...schema, additionalProperties: false } : schema);
  return (value: unknown) => {
    if (compiled.Check(value)) return { value };
    const problems = compiled.Errors(value).flatMap((error) => problemsOf(error, known));
    const texts = [...Map.groupBy(problems, ([field]) => field)].map(
      ([field, [first]]) => `${field} ${first?.[1]}`,
    );
    const entry = httpPart === 'body' ? HTTP_ERRORS.invalidBody : HTTP_ERRORS.invalidQuery;
    return { error: new HttpError(entry, `${texts.join('; ')}.`) };
  };
};

/** The fields that an error is about, each with what is wrong; `known` are the parameters of a query. */
function problemsOf(
  { keyword, params, instancePath, message }: TLocalizedValidationError,
  known: readonly string[] | undefined,
): [field: string, problem: string][] {
  if (keyword === 'required') return params.requiredProperties.map((name) => [name, 'is required']);
  if (keyword === 'additionalProperties') return []; // they have an error each
  const field = instancePath.slice(1) || 'The body';
  if (known && keyword === 'boolean') return [unknownParameter(instancePath, known)];
  if (keyword === 'type' && known) return [[field, 'must be given once']]; // a string, or an array of them
  if (keyword === 'type')
    return [[field, `must be ${params.type === 'object' ? 'a JSON object' : `a ${params.type}`}`]];
  return [[field, message]];
}

/** `path` is a JSON pointer (RFC 6901). */
function unknownParameter(path: string, known: readonly string[]): [name: string, problem: string] {
  const name = path.slice(1).replaceAll('~1', '/').replaceAll('~0', '~');
  const near = [0, 1, 2]
    .filter((edits) => edits * 2 <= name.length)
    .flatMap((edits) => known.filter((one) => isNear(name.toLowerCase(), one, edits)));
  const hint = near[0] === undefined ? '' : ` (did you mean ${near[0]}?)`;
  return [
    name.slice(0, MAX_NAME_LENGTH).toWellFormed() || 'A name that is empty',
    `is not a parameter${hint}`,
  ];
}

/** Whether one text becomes the other by this number of insertions, deletions and replacements of characters. */
function isNear(one: string, other: string, edits: number): boolean {
  let at = 0;
  while (at < one.length && one[at] === other[at]) at++;
  const [a, b] = [one.slice(at), other.slice(at)];
  if (edits === 0 || Math.abs(a.length - b.length) > edits) return a === b;
  const [shorterA, shorterB] = [a.slice(1), b.slice(1)];
  return [
    [shorterA, b],
    [a, shorterB],
    [shorterA, shorterB],
  ].some(([x = '', y = '']) => isNear(x, y, edits - 1));
}
