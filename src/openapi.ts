import { CloudEvent } from '@event-sourced/event-log/replay';
import {
  type ApiDescription,
  errorsOf as describeErrors,
  type ErrorEntry,
  TooManyInFlight,
} from '@event-sourced/http';
import { API_ERRORS, COMMON_ERRORS } from './errors.ts';
import { type Kind, MAX_IN_FLIGHT } from './inFlight.ts';
import { NewPlant, Plant } from './plants/routes.ts';

/** The error responses of a route, by status: those of every route, and these. */
export const errorsOf = describeErrors(API_ERRORS, COMMON_ERRORS);

/** The error of a route whose responses in flight are limited. */
export const tooManyInFlight = (...kinds: [Kind, ...Kind[]]): ErrorEntry => ({
  ...API_ERRORS.tooManyInFlight,
  description: `${kinds.map((kind) => `${MAX_IN_FLIGHT[kind]} ${kind}`).join(', or ')} of the user are in flight; read them, and retry`,
  message: new TooManyInFlight(kinds[0], MAX_IN_FLIGHT[kinds[0]]).message,
});

/** What is not in the routes. */
export const API: ApiDescription = {
  info: {
    title: 'Plant store API',
    version: '1.0.0',
    description:
      'Create plants, and list your own. The operations of `audit` replay and check the log of all users, as [the audit page](audit) does. Every request can be repeated safely.',
    contact: { name: 'The maintainers of the plant store' },
    license: { name: 'MIT', identifier: 'MIT' },
  },
  tags: [
    { name: 'plants', description: 'The plants of the token’s user.' },
    { name: 'audit', description: 'The log of all users, for tokens with the scope audit.' },
  ],
  schemas: [Plant, NewPlant, CloudEvent],
  token:
    'A JWT of your identity provider; or, with the service’s own key, on its machine: `npm run -s token -- alice`, and for the operations of `audit`: `npm run -s token -- carol --scope audit`.',
};
