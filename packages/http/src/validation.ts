import type { FastifySchemaCompiler } from 'fastify';
import { type TSchema, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import type { TLocalizedValidationError } from 'typebox/error';
import { HTTP_ERRORS, HttpError } from './errors.ts';

/** The query of a route without parameters. */
export const NO_PARAMETERS = Type.Object({});
/** The maximum length, in a message, of a name that a client has sent. */
const MAX_NAME_LENGTH = 64;

/**
 * Validates with TypeBox, without coercion. A query must not have unknown parameters. The message names the first eight
 * invalid fields and their rules.
 */
export const validatorCompiler: FastifySchemaCompiler<TSchema> = ({ schema, httpPart }) => {
  const isQuery = httpPart === 'querystring';
  const known = isQuery ? Object.keys((schema as typeof NO_PARAMETERS).properties) : undefined;
  const compiled = Compile(isQuery ? { ...schema, additionalProperties: false } : schema);
  return (value: unknown) => {
    if (compiled.Check(value)) return { value };
    const problems = compiled.Errors(value).flatMap((error) => fieldProblems(error, known));
    const texts = [...Map.groupBy(problems, ([field]) => field)].map(
      ([field, [first]]) => `${field} ${first?.[1]}`,
    );
    const entry = httpPart === 'body' ? HTTP_ERRORS.invalidBody : HTTP_ERRORS.invalidQuery;
    return { error: new HttpError(entry, `${texts.join('; ')}.`) };
  };
};

/** The fields of a validation error, each with its problem; `known` are the parameters of a query. */
function fieldProblems(
  { keyword, params, instancePath, message }: TLocalizedValidationError,
  known: readonly string[] | undefined,
): [field: string, problem: string][] {
  if (keyword === 'required') return params.requiredProperties.map((name) => [name, 'is required']);
  if (keyword === 'additionalProperties') return []; // each unknown parameter has its own error
  const field = instancePath.slice(1) || 'The body';
  if (known && keyword === 'boolean') return [unknownParameter(instancePath, known)];
  if (keyword === 'enum')
    return [[field, `must be ${params.allowedValues.map((value) => JSON.stringify(value)).join(' or ')}`]];
  if (keyword === 'type' && known) return [[field, 'must be given once']]; // a repeated parameter is an array
  if (keyword === 'type')
    return [
      [
        field,
        `must be ${params.type === 'object' ? 'a JSON object' : `${/^[aeiou]/.test(params.type as string) ? 'an' : 'a'} ${params.type}`}`,
      ],
    ];
  return [[field, message]];
}

/** `path` is a JSON pointer (RFC 6901). */
function unknownParameter(path: string, known: readonly string[]): [name: string, problem: string] {
  const name = path.slice(1).replaceAll('~1', '/').replaceAll('~0', '~');
  const near = [0, 1, 2]
    .filter((edits) => edits * 2 <= name.length)
    .flatMap((edits) => known.filter((candidate) => isNear(name.toLowerCase(), candidate, edits)));
  const hint = near[0] === undefined ? '' : ` (did you mean ${near[0]}?)`;
  return [name.slice(0, MAX_NAME_LENGTH).toWellFormed() || 'An empty name', `is not a parameter${hint}`];
}

/** Whether this number of insertions, deletions and replacements of characters turns one text into the other. */
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
