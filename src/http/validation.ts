import type { FastifySchemaCompiler } from 'fastify';
import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import type { TLocalizedValidationError } from 'typebox/error';
import { BadRequest, NUMBERS } from './errors.ts';

/** TypeBox, without any coercion; the first error becomes words that name the field and the rule. */
export const validatorCompiler: FastifySchemaCompiler<TSchema> = ({ schema, httpPart }) => {
  const compiled = Compile(schema);
  return (value: unknown) => {
    if (compiled.Check(value)) return { value };
    const [fault] = compiled.Errors(value);
    const number = httpPart === 'body' ? NUMBERS.notANewPlant : NUMBERS.badQuery;
    const words = fault ? rule(fault, httpPart === 'querystring') : 'The request is wrong';
    return { error: new BadRequest(number, `${words}.`) };
  };
};

function rule(
  { keyword, params, instancePath, message }: TLocalizedValidationError,
  isQuery: boolean,
): string {
  if (keyword === 'required') return `${params.requiredProperties[0]} is required`;
  const field = instancePath.slice(1) || 'The body';
  if (keyword === 'type' && isQuery) return `${field} must be given once`; // a text it is, or several
  if (keyword === 'type')
    return `${field} must be ${params.type === 'object' ? 'a JSON object' : `a ${params.type}`}`;
  return `${field} ${message}`;
}
