import type { FastifySchemaCompiler } from 'fastify';
import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import type { TLocalizedValidationError } from 'typebox/error';
import { HTTP_ERRORS, HttpError } from './errors.ts';

/** Validates with TypeBox, without coercion. The message of the first error names the field and the rule. */
export const validatorCompiler: FastifySchemaCompiler<TSchema> = ({ schema, httpPart }) => {
  const compiled = Compile(schema);
  return (value: unknown) => {
    if (compiled.Check(value)) return { value };
    const [error] = compiled.Errors(value);
    const entry = httpPart === 'body' ? HTTP_ERRORS.invalidBody : HTTP_ERRORS.invalidQuery;
    const message = error ? messageOf(error, httpPart === 'querystring') : 'The request is invalid';
    return { error: new HttpError(entry, `${message}.`) };
  };
};

function messageOf(
  { keyword, params, instancePath, message }: TLocalizedValidationError,
  isQuery: boolean,
): string {
  if (keyword === 'required') return `${params.requiredProperties[0]} is required`;
  const field = instancePath.slice(1) || 'The body';
  if (keyword === 'type' && isQuery) return `${field} must be given once`; // a string, or an array of them
  if (keyword === 'type')
    return `${field} must be ${params.type === 'object' ? 'a JSON object' : `a ${params.type}`}`;
  return `${field} ${message}`;
}
