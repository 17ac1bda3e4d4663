import type { FastifySchemaCompiler } from 'fastify';
import { type TSchema, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import type { TLocalizedValidationError } from 'typebox/error';
import { HTTP_ERRORS, HttpError } from './errors.ts';

/** The query of a route without parameters. */
export const NO_PARAMETERS = Type.Object({});
/** The maximum number of unknown parameters in a message; of other problems, TypeBox reports eight. */
const MAX_UNKNOWN = 8;
/** The maximum length, in a message, of a name that a client has sent. */
const MAX_NAME_LENGTH = 64;

/** A field, and the end of the sentence about it. */
type Problem = readonly [field: string, rule: string];

/**
 * Validates with TypeBox, without coercion. A query must not have unknown parameters. The message names the first
 * invalid fields with their rules and, if a parameter is unknown, the parameters that exist.
 */
export const validatorCompiler: FastifySchemaCompiler<TSchema> = ({ schema, httpPart }) => {
  const compiled = Compile(schema);
  const isQuery = httpPart === 'querystring';
  const known = isQuery ? Object.keys((schema as typeof NO_PARAMETERS).properties) : [];
  const existing = known.length > 0 ? `the parameters are ${known.join(', ')}` : 'there are no parameters';
  const entry = httpPart === 'body' ? HTTP_ERRORS.invalidBody : HTTP_ERRORS.invalidQuery;
  return (value: unknown) => {
    const names = isQuery ? Object.keys(value as object) : [];
    const unknown = names.filter((name) => !known.includes(name)).slice(0, MAX_UNKNOWN);
    if (unknown.length === 0 && compiled.Check(value)) return { value };
    const problems: Problem[] = unknown.map((name) => [shown(name), 'is not a parameter']);
    for (const problem of compiled.Errors(value).flatMap(isQuery ? queryProblems : bodyProblems))
      if (!problems.some(([field]) => field === problem[0])) problems.push(problem);
    const sentences = problems.map((problem) => problem.join(' '));
    if (unknown.length > 0) sentences.push(existing);
    return { error: new HttpError(entry, `${sentences.join('; ')}.`) };
  };
};

function shown(name: string): string {
  return name.slice(0, MAX_NAME_LENGTH).toWellFormed() || 'An empty name';
}

/** Parameters are text: one of another type was repeated, and is an array. */
function queryProblems(error: TLocalizedValidationError): Problem[] {
  if (error.keyword === 'type') return [[error.instancePath.slice(1), 'must be given once']];
  return bodyProblems(error);
}

function bodyProblems({ keyword, params, instancePath, message }: TLocalizedValidationError): Problem[] {
  const field = instancePath.slice(1) || 'The body';
  switch (keyword) {
    case 'required':
      return params.requiredProperties.map((name) => [name, 'is required']);
    case 'enum':
      return [[field, `must be ${params.allowedValues.map((value) => JSON.stringify(value)).join(' or ')}`]];
    case 'type':
      return [[field, `must be ${NOUNS[params.type as string] ?? `a ${params.type}`}`]];
    default:
      return [[field, message]];
  }
}

const NOUNS: Record<string, string> = {
  object: 'a JSON object',
  array: 'an array',
  integer: 'an integer',
};
