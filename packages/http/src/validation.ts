import type { FastifySchemaCompiler } from 'fastify';
import { type TSchema, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import type { TLocalizedValidationError } from 'typebox/error';
import { type FieldError, HTTP_ERRORS, HttpError, MAX_FIELDS } from './errors.ts';

/** The query of a route without parameters. */
export const NO_PARAMETERS = Type.Object({});
/** The maximum length, in an error, of a name that a client has sent. */
const MAX_NAME_LENGTH = 64;

/**
 * Validates with TypeBox, without coercion. A query must not have unknown parameters. The error names the first invalid
 * fields with their rules; if a parameter is unknown, its message also names the parameters that exist.
 */
export const validatorCompiler: FastifySchemaCompiler<TSchema> = ({ schema, httpPart }) => {
  const compiled = Compile(schema);
  const isQuery = httpPart === 'querystring';
  const known = isQuery ? Object.keys((schema as typeof NO_PARAMETERS).properties) : [];
  const existing = known.length > 0 ? `the parameters are ${known.join(', ')}` : 'there are no parameters';
  const definition = httpPart === 'body' ? HTTP_ERRORS.invalidBody : HTTP_ERRORS.invalidQuery;
  return (value: unknown) => {
    const names = isQuery ? Object.keys(value as object) : [];
    const unknown = names.filter((name) => !known.includes(name));
    if (unknown.length === 0 && compiled.Check(value)) return { value };
    const details: FieldError[] = [];
    const add = (found: readonly FieldError[]) => {
      for (const one of found)
        if (details.length < MAX_FIELDS && !details.some(({ field }) => field === one.field))
          details.push(one);
    };
    add(unknown.map((name) => ({ field: shortened(name), message: 'is not a parameter' })));
    add(compiled.Errors(value).flatMap(isQuery ? queryErrors : bodyErrors));
    const noun = isQuery ? 'An empty name' : 'The body';
    const sentences = details.map(({ field, message }) => `${field || noun} ${message}`);
    if (unknown.length > 0) sentences.push(existing);
    return { error: new HttpError(definition, `${sentences.join('; ')}.`, {}, details) };
  };
};

function shortened(name: string): string {
  return name.slice(0, MAX_NAME_LENGTH).toWellFormed();
}

/** Parameters are text: one of another type was repeated, and is an array. */
function queryErrors(error: TLocalizedValidationError): FieldError[] {
  if (error.keyword === 'type')
    return [{ field: error.instancePath.slice(1), message: 'must be given once' }];
  return bodyErrors(error);
}

function bodyErrors({ keyword, params, instancePath, message }: TLocalizedValidationError): FieldError[] {
  const field = instancePath.slice(1);
  switch (keyword) {
    case 'required':
      return params.requiredProperties.map((name) => ({ field: name, message: 'is required' }));
    case 'enum': {
      const allowed = params.allowedValues.map((value) => JSON.stringify(value));
      return [{ field, message: `must be ${allowed.join(' or ')}` }];
    }
    case 'type':
      return [{ field, message: `must be ${NOUNS[params.type as string] ?? `a ${params.type}`}` }];
    default:
      return [{ field, message }];
  }
}

const NOUNS: Record<string, string> = {
  object: 'a JSON object',
  array: 'an array',
  integer: 'an integer',
};
